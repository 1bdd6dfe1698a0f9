package node_test

import (
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/node"
)

// TestLabDirectCase9 forges a reset into the application's half of a flow: from
// the network, in the name of the client, with the very port and number that the
// half has. It is dropped, and the flow goes on.
func TestLabDirectCase9(t *testing.T) {
	s := newScene(t, node.Config{})
	s.each(t, func(t *testing.T, v variant) {
		e := v.listen(t, appPort)
		for _, p := range v.applications(t, e) {
			p.talk()
			_, receive, err := lab.Sequences(p.app)
			if err != nil {
				t.Fatal(err)
			}
			forged := lab.Segment{From: addrOf(p.app.RemoteAddr()), To: addrOf(p.app.LocalAddr()), Seq: receive, Flags: lab.RST}
			arrived := v.watch(t, v.pod, "prerouting priority -300", "", `iifname "eth0" `+rowOf(forged.From, forged.To)+" tcp flags & rst == rst")
			if err := v.host.Forge(forged); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the forged reset to arrive", func() bool { return arrived.count() == 1 })
			p.talk()
			p.finish()
		}
	})
}
