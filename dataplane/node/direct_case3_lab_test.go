package node_test

import (
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/node"
)

// TestLabDirectCase3 sends an ACK from outside to which no socket belongs: it is
// answered with a reset, where an application listens and where none does.
func TestLabDirectCase3(t *testing.T) {
	s := newScene(t, node.Config{})
	const stranger, closed = 40404, appPort + 1
	s.each(t, func(t *testing.T, v variant) {
		v.listen(t, appPort)
		for _, port := range []uint16{appPort, closed} {
			to := v.at(v.pod, port)
			resets := v.watch(t, v.host, "prerouting priority -300", "", rowOf(to, v.at(v.host, stranger))+" tcp flags & (rst|ack) == rst")
			if err := v.host.Forge(lab.Segment{From: v.at(v.host, stranger), To: to, Seq: 1000, Ack: 2000, Flags: lab.ACK}); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the reset from "+to.String(), func() bool { return resets.count() == 1 })
		}
	})
}
