package mesh

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// shop is two pods and one of the host's network.
func shop() []*Workload {
	a := netip.MustParseAddr
	return []*Workload{
		{UID: "b", Name: "web-0", Namespace: "shop", ServiceAccount: "web", Addresses: []netip.Addr{a("192.0.2.1"), a("2001:db8::1")}},
		{UID: "a", Name: "cart-0", Namespace: "shop", ServiceAccount: "cart", Protocol: HBONE, Addresses: []netip.Addr{a("::ffff:192.0.2.2")}},
		{UID: "c", Name: "agent-0", Namespace: "system", ServiceAccount: "agent", HostNetwork: true, Addresses: []netip.Addr{a("192.0.2.1")}},
	}
}

func TestLookups(t *testing.T) {
	s, err := New(shop())
	if err != nil {
		t.Fatal(err)
	}
	for addr, want := range map[string]string{
		"192.0.2.1": "b", "::ffff:192.0.2.1": "b", "2001:db8::1": "b", "192.0.2.2": "a", "::ffff:192.0.2.2": "a", "192.0.2.3": "",
	} {
		got := ""
		if w := s.ByAddr(netip.MustParseAddr(addr)); w != nil {
			got = w.UID
		}
		if got != want {
			t.Errorf("%s is of %q; want %q", addr, got, want)
		}
	}
	if w := s.ByName("system", "agent-0", "agent"); w == nil || w.UID != "c" {
		t.Errorf("agent-0 is %v", w)
	}
	if w := s.ByName("shop", "web-0", "cart"); w != nil {
		t.Errorf("web-0 with another account is %v", w)
	}
	var uids []string
	for w := range s.Workloads() {
		uids = append(uids, w.UID)
	}
	if !slices.Equal(uids, []string{"a", "b", "c"}) || s.Len() != 3 {
		t.Errorf("workloads %q, %d", uids, s.Len())
	}
}

func TestNewRefuses(t *testing.T) {
	all := append(shop(), shop()[0])
	_, err := New(all)
	for _, want := range []string{`uid "b"`, "address 192.0.2.1", "address 2001:db8::1"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want %q in it", err, want)
		}
	}
}

func TestCurrent(t *testing.T) {
	var c Current
	if s := c.Load(); s.Len() != 0 || s.ByAddr(netip.MustParseAddr("192.0.2.1")) != nil || s.ByName("a", "b", "c") != nil {
		t.Error("something in an empty mesh")
	}
	old := c.Load()
	s, err := New(shop())
	if err != nil {
		t.Fatal(err)
	}
	c.Publish(s)
	if c.Load() != s || old.Len() != 0 {
		t.Error("not swapped")
	}
}

func TestBudgetLookup(t *testing.T) {
	s, err := New(shop())
	if err != nil {
		t.Fatal(err)
	}
	var c Current
	var none Current
	c.Publish(s)
	addr, missing := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("192.0.2.9")
	if n := testing.AllocsPerRun(1000, func() {
		none.Load().ByAddr(addr)
		c.Load().ByAddr(addr)
		c.Load().ByAddr(missing)
		c.Load().ByName("shop", "web-0", "web")
	}); n > 0 {
		t.Errorf("%v allocations for each lookup", n)
	}
}
