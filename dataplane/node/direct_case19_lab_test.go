package node_test

import (
	"net/netip"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/node"
)

// TestLabDirectCase19 dials a service whose only server is the pod itself: the
// node sends the connection back, in its own name, and the proxy carries it out
// and in.
func TestLabDirectCase19(t *testing.T) {
	s := newScene(t, node.Config{})
	vip4, vip6 := netip.MustParseAddr("203.0.113.100"), netip.MustParseAddr("2001:db8:0:9::64")
	s.balance(t, vip4, vip6, s.pod)
	veth := s.lab.Nodes[0].Pods[0].Veth
	back := "iifname " + veth + " oifname " + veth
	lab.Output(t, s.node, "nft", "add chain inet service post { type nat hook postrouting priority 100; }; "+
		"add rule inet service post meta nfproto ipv4 "+back+" snat ip to "+s.node.Addr4.String()+"; "+
		"add rule inet service post meta nfproto ipv6 "+back+" snat ip6 to "+s.node.Addr6.String())
	s.each(t, func(t *testing.T, v variant) {
		e := v.listen(t, appPort)
		v.captured(t, 1, 1, func() {
			j := e.connect(t, v.pod, v.app(), netip.AddrPortFrom(v.pick(vip4, vip6), appPort), v.pod)
			if peer := addrOf(j.server.RemoteAddr()); peer.Addr() != v.addr(v.node) {
				t.Errorf("the application saw %v; want the node, %v", peer, v.addr(v.node))
			}
			j.talk()
			j.finish()
		})
	})
}
