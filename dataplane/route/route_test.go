package route_test

import (
	"net/netip"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/route"
)

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

var pod = flow.NewAddrs(addr("192.0.2.1"), addr("203.0.113.1"), addr("2001:db8::1"), addr("fe80::1"), addr("127.0.0.1"), addr("::1"))

func TestDecide(t *testing.T) {
	for _, tt := range []struct {
		name        string
		path        flow.Path
		client, dst string
		want        flow.Verdict // To is dst where it is Direct
	}{
		{"out", flow.Outbound, "192.0.2.1:40000", "198.51.100.1:80", flow.Verdict{Kind: flow.Direct, Source: addr("192.0.2.1")}},
		{"out from a second address", flow.Outbound, "203.0.113.1:40000", "198.51.100.1:80", flow.Verdict{Kind: flow.Direct, Source: addr("203.0.113.1")}},
		{"out over IPv6", flow.Outbound, "[2001:db8::1]:40000", "[2001:db8::2]:80", flow.Verdict{Kind: flow.Direct, Source: addr("2001:db8::1")}},
		{"out from an address that is not the pod's", flow.Outbound, "198.51.100.9:40000", "198.51.100.1:80", flow.Verdict{Kind: flow.Direct}},
		{"out from a link-local address", flow.Outbound, "[fe80::1%2]:40000", "[2001:db8::2]:80", flow.Verdict{Kind: flow.Direct}},
		{"out to the pod itself", flow.Outbound, "192.0.2.1:40000", "192.0.2.1:80", flow.Verdict{Kind: flow.Direct, Source: addr("192.0.2.1")}},
		{"out to a server on a port of ours", flow.Outbound, "192.0.2.1:40000", "198.51.100.1:15008", flow.Verdict{Kind: flow.Direct, Source: addr("192.0.2.1")}},
		{"in", flow.Inbound, "198.51.100.9:40000", "192.0.2.1:80", flow.Verdict{Kind: flow.Direct, Source: addr("198.51.100.9"), Application: true}},
		{"in over IPv6", flow.Inbound, "[2001:db8::9]:40000", "[2001:db8::1]:80", flow.Verdict{Kind: flow.Direct, Source: addr("2001:db8::9"), Application: true}},
		{"in from a link-local address", flow.Inbound, "[fe80::9%2]:40000", "[2001:db8::1]:80", flow.Verdict{Kind: flow.Direct, Application: true}},
		{"in from the destination", flow.Inbound, "192.0.2.1:40000", "192.0.2.1:80", flow.Verdict{Kind: flow.Direct, Application: true}},
		{"in from another address of the pod", flow.Inbound, "203.0.113.1:40000", "192.0.2.1:80", flow.Verdict{Kind: flow.Direct, Source: addr("203.0.113.1"), Application: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tuple := flow.Tuple{Client: netip.MustParseAddrPort(tt.client), Dst: netip.MustParseAddrPort(tt.dst)}
			tt.want.To = tuple.Dst
			if got := route.Decide(tt.path, tuple, pod); got != tt.want {
				t.Errorf("verdict %+v; want %+v", got, tt.want)
			}
		})
	}
}

// Whatever the path and the client, nobody gets at a port of ours in this pod.
func TestStraight(t *testing.T) {
	for _, host := range []string{"192.0.2.1", "203.0.113.1", "[2001:db8::1]", "[fe80::1%2]", "127.0.0.1", "127.1.2.3", "[::1]"} {
		for port, straight := range map[string]bool{
			"15001": true, "15006": true, "15008": true, "15053": true,
			"80": false, "15000": false, "15002": false, "15021": false,
		} {
			dst := netip.MustParseAddrPort(host + ":" + port)
			for _, client := range []string{"192.0.2.1:15001", "198.51.100.9:40000", "127.0.0.1:5"} {
				for path := range flow.Paths {
					got := route.Decide(path, flow.Tuple{Client: netip.MustParseAddrPort(client), Dst: dst}, pod)
					denied := got == flow.Verdict{Kind: flow.Deny, Why: flow.CloseStraight}
					if denied != straight || straight == (got.Kind == flow.Direct) {
						t.Errorf("%v from %s to %v: %+v; want denied: %v", path, client, dst, got, straight)
					}
				}
			}
		}
	}
}

func TestDecideBudget(t *testing.T) {
	tuple := flow.Tuple{Client: netip.MustParseAddrPort("192.0.2.1:40000"), Dst: netip.MustParseAddrPort("198.51.100.1:80")}
	if got := testing.AllocsPerRun(100, func() { route.Decide(flow.Outbound, tuple, pod) }); got > 0 {
		t.Errorf("%v allocations per verdict; budget 0", got)
	}
}
