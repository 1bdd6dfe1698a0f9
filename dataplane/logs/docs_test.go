package logs_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/logs"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

const page = "../../docs/operating.md"

// The page has every field of a flow's line, in the order of the lines.
func TestFieldsAreDocumented(t *testing.T) {
	var documented []string
	for _, row := range testkit.Table(t, page, "One line for each flow") {
		documented = append(documented, testkit.Code(row[0])...)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(written(t, logs.JSON, "", everyKind()...)) {
		at := -1
		dec := json.NewDecoder(strings.NewReader(line))
		for depth := 0; ; {
			token, err := dec.Token()
			if err != nil {
				break
			}
			if depth == 0 { // the brace
				depth++
				continue
			}
			key, ok := token.(string)
			if !ok {
				break
			}
			if _, err := dec.Token(); err != nil {
				t.Fatal(err)
			}
			if slices.Contains([]string{"level", "time", "scope", "message"}, key) {
				continue
			}
			i := slices.Index(documented, key)
			if i < 0 || i < at {
				t.Fatalf("%s has place %d on the page, behind one with %d: %s", key, i, at, line)
			}
			at, seen[key] = i, true
		}
	}
	for _, key := range documented {
		if !seen[key] {
			t.Errorf("the page has %s; no line has it", key)
		}
	}
}

func TestReasonsAreDocumented(t *testing.T) {
	rows := testkit.Table(t, page, "## Close reasons")
	for why := flow.CloseEOF; why < flow.Reasons; why++ {
		i := slices.IndexFunc(rows, func(r []string) bool { return r[0] == "`"+why.String()+"`" })
		if i < 0 {
			t.Errorf("close reason %v is not on the page", why)
			continue
		}
		rows = slices.Delete(rows, i, i+1)
	}
	for _, row := range rows {
		t.Errorf("%s is on the page; there is no such close reason", row[0])
	}
}
