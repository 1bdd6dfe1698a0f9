package flow_test

import (
	"net/netip"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/flow"
)

// Metric labels come from these: each value has a name of its own.
func TestNames(t *testing.T) {
	for _, tt := range []struct {
		kind string
		n    int
		name func(i int) string
	}{
		{"path", int(flow.Paths), func(i int) string { return flow.Path(i).String() }},
		{"verdict", int(flow.Tunnel) + 1, func(i int) string { return flow.VerdictKind(i).String() }},
		{"close reason", int(flow.Reasons), func(i int) string { return flow.CloseReason(i).String() }},
	} {
		seen := map[string]int{}
		for i := range tt.n {
			name := tt.name(i)
			if old, twice := seen[name]; twice || name == "" || name == "unknown" {
				t.Errorf("%s %d is called %q (before: %d)", tt.kind, i, name, old)
			}
			seen[name] = i
		}
		if got := tt.name(tt.n); got != "unknown" {
			t.Errorf("%s %d does not exist, but is called %q", tt.kind, tt.n, got)
		}
	}
	if !flow.CloseEOF.Clean() || flow.CloseClientReset.Clean() || flow.Open.Clean() {
		t.Error("only an end by FIN from both sides is clean")
	}
}

func TestTupleText(t *testing.T) {
	tuple := flow.Tuple{Client: netip.MustParseAddrPort("192.0.2.1:1"), Dst: netip.MustParseAddrPort("[2001:db8::2]:80")}
	if got, want := tuple.String(), "192.0.2.1:1 > [2001:db8::2]:80"; got != want {
		t.Errorf("tuple reads %q; want %q", got, want)
	}
}

func TestAddrs(t *testing.T) {
	var none flow.Addrs
	if none.Len() != 0 || none.Has(netip.MustParseAddr("192.0.2.1")) {
		t.Error("the zero set is not empty")
	}
	set := flow.NewAddrs(
		netip.MustParseAddr("192.0.2.1"),
		netip.MustParseAddr("::ffff:192.0.2.1"), // the same
		netip.MustParseAddr("fe80::1%eth0"),
		netip.MustParseAddr("2001:db8::1"),
	)
	if set.Len() != 3 {
		t.Errorf("%d addresses; want 3", set.Len())
	}
	for addr, want := range map[string]bool{
		"192.0.2.1": true, "192.0.2.2": false, "fe80::1": true, "fe80::1%7": true, "fe80::2%eth0": false, "2001:db8::1": true,
	} {
		if got := set.Has(netip.MustParseAddr(addr)); got != want {
			t.Errorf("Has(%s) = %v; want %v", addr, got, want)
		}
	}
}
