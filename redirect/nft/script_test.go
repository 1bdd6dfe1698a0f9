package nft

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/redirect"
)

// intents are what the tests of this package make plans of.
func intents() map[string]redirect.Intent {
	return map[string]redirect.Intent{
		"direct":     {},
		"direct-dns": {DNS: true},
		"probes": {
			Probe4: netip.MustParseAddr("192.0.2.7"),
			Probe6: netip.MustParseAddr("2001:db8::7"),
		},
	}
}

func table(t testing.TB, in redirect.Intent) redirect.Table {
	t.Helper()
	p, err := redirect.NewPlan(in)
	if err != nil {
		t.Fatal(err)
	}
	return p.Table
}

func TestScript(t *testing.T) {
	for name, in := range intents() {
		t.Run(name, func(t *testing.T) {
			testkit.Golden(t, name+".nft", Script(table(t, in)))
			testkit.Golden(t, name+".undo.nft", Undo(table(t, in)))
		})
	}
}

// The generated text is the reference, row by row.
func TestScriptIsReference(t *testing.T) {
	for _, dns := range []bool{false, true} {
		if got, want := squeeze(Script(table(t, redirect.Intent{DNS: dns}))), squeeze(reference(t, dns)); got != want {
			t.Errorf("dns %v: generated\n%s\nreference\n%s", dns, got, want)
		}
	}
}

// reference is the proved rule set, with DNS capture or without it.
func reference(t testing.TB, dns bool) string {
	t.Helper()
	b, err := os.ReadFile("testdata/reference.nft")
	if err != nil {
		t.Fatal(err)
	}
	if dns {
		return string(b)
	}
	var rest []string
	for line := range strings.Lines(string(b)) {
		if !strings.Contains(line, "dport 53 ") {
			rest = append(rest, line)
		}
	}
	return strings.Join(rest, "")
}

// squeeze takes out comments, empty lines and the space at line ends.
func squeeze(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}
