package admin

import (
	"slices"
	"testing"

	"github.com/sluice-mesh/sluice/internal/testkit"
)

func TestPagesAreDocumented(t *testing.T) {
	var got []string
	for _, row := range testkit.Table(t, "../../docs/operating.md", "## Ports") {
		if row[0] == "15000" {
			got = append(got, testkit.Code(row[1])...)
		}
	}
	want := []string{"/"}
	for _, p := range pages(Node{}) {
		want = append(want, p.path)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the page has %q; there are %q", got, want)
	}
}
