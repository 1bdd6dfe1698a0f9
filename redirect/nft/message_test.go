package nft

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/redirect"
)

func TestIntervals(t *testing.T) {
	for _, tt := range []struct{ name, prefixes, want string }{
		{"one", "127.0.0.0/8", "0.0.0.0] 127.0.0.0[ 128.0.0.0]"},
		{"sorted", "192.0.2.1/32 10.0.0.0/8", "0.0.0.0] 10.0.0.0[ 11.0.0.0] 192.0.2.1[ 192.0.2.2]"},
		{"touching", "128.0.0.0/32 127.0.0.0/8", "0.0.0.0] 127.0.0.0[ 128.0.0.1]"},
		{"touching before", "126.255.255.255/32 127.0.0.0/8", "0.0.0.0] 126.255.255.255[ 128.0.0.0]"},
		{"from zero", "0.0.0.0/8", "0.0.0.0[ 1.0.0.0]"},
		{"to the end", "255.255.255.255/32", "0.0.0.0] 255.255.255.255["},
		{"host bits", "10.1.2.3/8", "0.0.0.0] 10.0.0.0[ 11.0.0.0]"},
		{"IPv6", "fe80::/10 ::1/128", "::] ::1[ ::2] fe80::[ fec0::]"},
		{"IPv6 to the end", "ff00::/8", "::] ff00::["},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, m := range intervals(prefixes(tt.prefixes)) {
				side := "["
				if m.end {
					side = "]"
				}
				got = append(got, m.at.String()+side)
			}
			if s := fmt.Sprint(got); s != "["+tt.want+"]" {
				t.Errorf("got %s; want [%s]", s, tt.want)
			}
		})
	}
}

func prefixes(text string) []netip.Prefix {
	var list []netip.Prefix
	for s := range strings.FieldsSeq(text) {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}

// The messages of a transaction: the table is replaced, chains come before the
// rows that go to them, and each set before the row that looks into it.
func TestReplaceTableOrder(t *testing.T) {
	s := replaceTable(table(t, redirect.Intent{DNS: true}))
	if err := s.err(); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, m := range s.msgs {
		kinds = append(kinds, m.what)
	}
	at := func(what string) int { return slices.Index(kinds, what) }
	if at("table sluice") != 0 || at("delete table sluice") != 1 {
		t.Errorf("begins with %q, %q; want the table made and deleted", kinds[0], kinds[1])
	}
	if at("chain postrouting") > at(`row 1 of chain prerouting (iifname "lo" goto from_lo)`) {
		t.Error("a row comes before the last chain")
	}
	row := "row 4 of chain tcp_out (ip daddr { 127.0.0.0/8, 169.254.7.127 } accept)"
	if at("set for "+row) < 0 || at("set for "+row)+2 != at(row) {
		t.Errorf("set at %d, its row at %d; want two messages before it", at("set for "+row), at(row))
	}
	if s.sets != 4 {
		t.Errorf("%d sets; want 4", s.sets)
	}
}

// A hook that nobody knows is an error before anything is sent.
func TestUnknownHook(t *testing.T) {
	bad := redirect.Table{Name: "x", Chains: []redirect.Chain{{Name: "c", Hook: &redirect.Hook{Type: "filter", Point: "sideways"}}}}
	if err := replaceTable(bad).err(); err == nil {
		t.Error("no error for hook sideways")
	}
}
