package logs_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluice-mesh/sluice/dataplane/logs"
)

// What a line is made of may be anything: it stays one line, and JSON.
func FuzzLine(f *testing.F) {
	f.Fuzz(func(t *testing.T, message, text string) {
		for _, format := range []logs.Format{logs.Plain, logs.JSON} {
			var out bytes.Buffer
			slog.New(output(t, &out, format, "").Handler()).Info(message, "key", text)
			line := out.String()
			if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
				t.Fatalf("not one line: %q", line)
			}
			if format == logs.Plain {
				if parts := strings.Split(line, "\t"); len(parts) != 5 {
					t.Fatalf("not five parts: %q", line)
				}
				continue
			}
			var parsed map[string]any
			if err := json.Unmarshal([]byte(line), &parsed); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if utf8.ValidString(text) && parsed["key"] != text {
				t.Fatalf("text %q became %q", text, parsed["key"])
			}
		}
	})
}

// What is shown of levels can be set again and is the same.
func FuzzLevels(f *testing.F) {
	f.Fuzz(func(t *testing.T, in string) {
		l, err := logs.ParseLevels(in)
		if err != nil {
			return
		}
		again, err := logs.ParseLevels(l.String())
		if err != nil || again.String() != l.String() {
			t.Fatalf("%q is %q, which is %v, %v", in, l, again, err)
		}
	})
}
