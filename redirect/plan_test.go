package redirect

import (
	"net/netip"
	"reflect"
	"slices"
	"testing"
)

func mustPlan(t testing.TB, in Intent) Plan {
	t.Helper()
	p, err := NewPlan(in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// chain finds a chain of p's table.
func chain(t testing.TB, p Plan, name string) Chain {
	t.Helper()
	for _, c := range p.Table.Chains {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no chain %s", name)
	return Chain{}
}

// Every tproxy falls through without a listener: behind each run of them a row
// must drop what they would have taken.
func TestPlanFailsClosed(t *testing.T) {
	for _, in := range []Intent{{}, {DNS: true}} {
		p := mustPlan(t, in)
		found := 0
		for _, c := range p.Table.Chains {
			for i, r := range c.Rows {
				if !slices.ContainsFunc(r, func(t Term) bool { _, ok := t.(TProxy); return ok }) {
					continue
				}
				found++
				if !slices.ContainsFunc(c.Rows[i+1:], func(r Row) bool { return r[len(r)-1] == Drop{} }) {
					t.Errorf("dns %v: chain %s, row %d: nothing drops behind it", in.DNS, c.Name, i+1)
				}
			}
		}
		if want := map[bool]int{false: 4, true: 8}[in.DNS]; found != want {
			t.Errorf("dns %v: %d tproxy rows; want %d", in.DNS, found, want)
		}
	}
}

// Without DNS capture no row knows port 53, with it exactly the listed ones do,
// and all else is the same.
func TestPlanDNSOnlyAddsRows(t *testing.T) {
	without, with := mustPlan(t, Intent{}), mustPlan(t, Intent{DNS: true})
	knowsDNS := func(r Row) bool {
		return slices.ContainsFunc(r, func(t Term) bool { d, ok := t.(DstPort); return ok && d.Port == 53 })
	}
	extra := 0
	for i, c := range with.Table.Chains {
		rest := slices.DeleteFunc(slices.Clone(c.Rows), func(r Row) bool {
			if knowsDNS(r) {
				extra++
			}
			return knowsDNS(r)
		})
		if !reflect.DeepEqual(rest, without.Table.Chains[i].Rows) {
			t.Errorf("chain %s differs in more than DNS rows", c.Name)
		}
	}
	if extra != 6 {
		t.Errorf("%d DNS rows; want 6", extra)
	}
	without.Table, with.Table = Table{}, Table{}
	if !reflect.DeepEqual(without, with) {
		t.Error("DNS capture changes more than the table")
	}
}

func TestPlanGotosExistAndEnd(t *testing.T) {
	p := mustPlan(t, Intent{DNS: true})
	for _, c := range p.Table.Chains {
		for _, r := range c.Rows {
			for i, term := range r {
				if g, ok := term.(Goto); ok {
					if i != len(r)-1 {
						t.Errorf("chain %s: terms behind a goto", c.Name)
					}
					if chain(t, p, g.Chain).Hook != nil {
						t.Errorf("chain %s goes to base chain %s", c.Name, g.Chain)
					}
				}
			}
		}
	}
}

func TestPlanFamilies(t *testing.T) {
	p := mustPlan(t, Intent{})
	for _, f := range []Family{IPv4, IPv6} {
		if !slices.Contains(p.Routes, Route{f, 100}) {
			t.Errorf("no route for %v", f)
		}
		for _, want := range []Rule{{f, 10, 0x111, 0xfff, 100}, {f, 11, 0x53a, 0xfff, 100}} {
			if !slices.Contains(p.Rules, want) {
				t.Errorf("no policy rule %+v", want)
			}
		}
	}
	if len(p.Routes) != 2 || len(p.Rules) != 4 {
		t.Errorf("%d routes and %d rules; want 2 and 4", len(p.Routes), len(p.Rules))
	}
}

func TestPlanSpares(t *testing.T) {
	p := mustPlan(t, Intent{Probe4: netip.MustParseAddr("192.0.2.9")})
	for addr, want := range map[string]bool{
		"127.0.0.1": true, "127.255.0.1": true, "192.0.2.9": true, "169.254.7.127": false, "192.0.2.8": false,
		"::1": true, "fe80::1": true, "febf::1": true, "fec0::1": false, "::2": false,
		"fd16:9254:7127:1337:ffff:ffff:ffff:ffff": true,
	} {
		a := netip.MustParseAddr(addr)
		if got := slices.ContainsFunc(p.Spared, func(p netip.Prefix) bool { return p.Contains(a) }); got != want {
			t.Errorf("%s spared: %v; want %v", addr, got, want)
		}
	}
}

// Seal closes the chains through which new connections come, under their names.
func TestSealNamesChains(t *testing.T) {
	p := mustPlan(t, Intent{})
	for _, c := range Seal().Chains {
		chain(t, p, c.Name)
	}
	if Seal().Name != p.Table.Name {
		t.Errorf("seals table %s; want %s", Seal().Name, p.Table.Name)
	}
}
