package nft_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/redirect"
	"github.com/sluice-mesh/sluice/redirect/nft"
)

// twoPods are two namespaces: one for nft's work, one for ours.
func twoPods(t *testing.T) (theirs, ours *lab.Space) {
	t.Helper()
	testkit.NoLeaks(t)
	l := lab.New(t, lab.Simple(1, 2, 0))
	return l.Find("p1"), l.Find("p2")
}

// load gives text to nft in s.
func load(t *testing.T, s *lab.Space, text string, flags ...string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script.nft")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	lab.Output(t, s, "nft", append(flags, "-f", path)...)
}

func list(t *testing.T, s *lab.Space) string {
	t.Helper()
	return lab.Output(t, s, "nft", "-s", "list", "ruleset")
}

func plan(t *testing.T, in redirect.Intent) redirect.Table {
	t.Helper()
	p, err := redirect.NewPlan(in)
	if err != nil {
		t.Fatal(err)
	}
	return p.Table
}

// What our transaction makes is what nft makes of the proved text: the same to
// read, and the same expressions in the kernel, byte by byte.
func TestLabTableIsReference(t *testing.T) {
	theirs, ours := twoPods(t)
	whole, err := os.ReadFile("testdata/reference.nft")
	if err != nil {
		t.Fatal(err)
	}
	for _, dns := range []bool{false, true} {
		text := string(whole)
		if !dns {
			var rest []string
			for line := range strings.Lines(text) {
				if !strings.Contains(line, "dport 53 ") {
					rest = append(rest, line)
				}
			}
			text = strings.Join(rest, "")
		}
		load(t, theirs, text)
		if err := nft.Commit(ours.Handle(), plan(t, redirect.Intent{DNS: dns})); err != nil {
			t.Fatal(err)
		}
		same(t, theirs, ours)
	}
}

// The printed text loads, and makes the same table as the transaction; also with
// probe addresses that touch the other spared prefixes.
func TestLabScriptIsTable(t *testing.T) {
	theirs, ours := twoPods(t)
	for _, in := range []redirect.Intent{
		{},
		{DNS: true},
		{Probe4: netip.MustParseAddr("192.0.2.7"), Probe6: netip.MustParseAddr("2001:db8::7")},
		{Probe4: netip.MustParseAddr("128.0.0.0"), Probe6: netip.MustParseAddr("::2")},
		{Probe4: netip.MustParseAddr("126.255.255.255"), Probe6: netip.MustParseAddr("fec0::")},
		{Probe4: netip.MustParseAddr("0.0.0.1"), Probe6: netip.MustParseAddr("fe7f:ffff:ffff:ffff:ffff:ffff:ffff:ffff")},
	} {
		table := plan(t, in)
		load(t, theirs, nft.Script(table), "-c")
		load(t, theirs, nft.Script(table))
		if err := nft.Commit(ours.Handle(), table); err != nil {
			t.Fatalf("%+v: %v", in, err)
		}
		same(t, theirs, ours)
	}
	load(t, theirs, nft.Undo(plan(t, redirect.Intent{})))
	load(t, theirs, nft.Undo(plan(t, redirect.Intent{})))
	if got := list(t, theirs); got != "" {
		t.Errorf("after undo: %s", got)
	}
}

// same compares the two namespaces' tables.
func same(t *testing.T, theirs, ours *lab.Space) {
	t.Helper()
	if a, b := list(t, theirs), list(t, ours); a != b || !strings.Contains(a, "tproxy") {
		t.Errorf("nft lists\n%s\nof its own, and of ours\n%s", a, b)
	}
	a, b := dump(t, theirs), dump(t, ours)
	if len(a) < 30 || len(a) != len(b) {
		t.Fatalf("the kernel holds %d objects of nft's and %d of ours", len(a), len(b))
	}
	for i := range a {
		if a[i] != b[i] {
			t.Errorf("object %d: nft's is\n%s\nand ours\n%s", i, a[i], b[i])
		}
	}
}

// One name that the kernel does not know in the last row: nothing at all happens,
// and the error says which row it was.
func TestLabMissingExpressionChangesNothing(t *testing.T) {
	_, ours := twoPods(t)
	broken := plan(t, redirect.Intent{DNS: true})
	last := &broken.Chains[len(broken.Chains)-1]
	last.Rows = append(last.Rows, redirect.Row{redirect.Named{Expr: "sluice_none"}})
	check := func() {
		t.Helper()
		for _, err := range []error{
			nft.Commit(ours.Handle(), broken),
			nft.Rehearse(ours.Handle(), broken),
		} {
			if !errors.Is(err, sys.ErrUnsupported) || !strings.Contains(err.Error(), "sluice_none") {
				t.Errorf("got %v; want ErrUnsupported that names the expression", err)
			}
		}
		if err := nft.Commit(ours.Handle(), broken); !strings.Contains(err.Error(), "row 2 of chain postrouting") {
			t.Errorf("got %v; want the row's place", err)
		}
	}
	check()
	if got := list(t, ours); got != "" {
		t.Errorf("half done: %s", got)
	}
	if err := nft.Commit(ours.Handle(), plan(t, redirect.Intent{})); err != nil {
		t.Fatal(err)
	}
	before := list(t, ours)
	check()
	if got := list(t, ours); got != before {
		t.Errorf("the table that was there changed:\n%s", got)
	}
}

func TestLabRehearsalLeavesNothing(t *testing.T) {
	_, ours := twoPods(t)
	if err := nft.Rehearse(ours.Handle(), plan(t, redirect.Intent{DNS: true})); err != nil {
		t.Fatal(err)
	}
	if err := ours.Do(func() error {
		for _, f := range append(nft.Features(), nft.FeatureDirect) {
			if err := f.Check(); err != nil {
				t.Error(err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := list(t, ours); got != "" {
		t.Errorf("left behind: %s", got)
	}
}

func TestLabProbe(t *testing.T) {
	_, ours := twoPods(t)
	for _, name := range []string{"meta", "cmp", "bitwise", "payload", "immediate", "lookup", "socket", "tproxy", "fib", "counter", "notrack"} {
		if err := nft.Probe(ours.Handle(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"sluice_none", "tproxyx"} {
		if err := nft.Probe(ours.Handle(), name); !errors.Is(err, sys.ErrUnsupported) {
			t.Errorf("%s: %v; want ErrUnsupported", name, err)
		}
	}
}

// Foreign tables stay, whatever we do.
func TestLabTouchesOnlyItsTable(t *testing.T) {
	_, ours := twoPods(t)
	load(t, ours, "table ip sluice {\n chain x {\n counter\n }\n}\ntable inet sluice_other {\n set s {\n type ipv4_addr\n }\n}\n")
	foreign := list(t, ours)
	table := plan(t, redirect.Intent{})
	for range 2 {
		if err := nft.Commit(ours.Handle(), table); err != nil {
			t.Fatal(err)
		}
	}
	if there, err := nft.Holds(ours.Handle(), table); !there || err != nil {
		t.Errorf("holds: %v, %v", there, err)
	}
	for _, want := range []bool{true, false} {
		if was, err := nft.Delete(ours.Handle(), table.Name); was != want || err != nil {
			t.Errorf("deleted: %v, %v; want %v", was, err, want)
		}
	}
	if there, err := nft.Holds(ours.Handle(), table); there || err != nil {
		t.Errorf("holds after delete: %v, %v", there, err)
	}
	if got := list(t, ours); got != foreign {
		t.Errorf("foreign tables were\n%s\nand are\n%s", foreign, got)
	}
}

// Rows at the head are in front and in order; without a table nothing happens.
func TestLabInsert(t *testing.T) {
	_, ours := twoPods(t)
	if err := nft.Insert(ours.Handle(), redirect.Seal()); err != nil {
		t.Errorf("without a table: %v", err)
	}
	if got := list(t, ours); got != "" {
		t.Errorf("made from nothing: %s", got)
	}
	if err := nft.Commit(ours.Handle(), plan(t, redirect.Intent{})); err != nil {
		t.Fatal(err)
	}
	before := dump(t, ours)
	if err := nft.Insert(ours.Handle(), redirect.Table{Name: redirect.TableName, Chains: []redirect.Chain{
		{Name: "syn_out", Rows: []redirect.Row{{redirect.SYN{}, redirect.Drop{}}, {redirect.NotLocal{}, redirect.Accept{}}}},
	}}); err != nil {
		t.Fatal(err)
	}
	got := lab.Output(t, ours, "nft", "list", "chain", "inet", "sluice", "syn_out")
	if a, b := strings.Index(got, "tcp flags"), strings.Index(got, "fib daddr"); a < 0 || b < a || strings.Index(got, "ip daddr") < b {
		t.Errorf("chain syn_out is %s", got)
	}
	if n := len(dump(t, ours)); n != len(before)+2 {
		t.Errorf("%d objects; want 2 more than %d", n, len(before))
	}
}
