package node_test

import (
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/node"
)

// TestLabDirectCase2 dials a port on which no application listens: the kernel's
// refusal reaches the proxy without a SYN being sent again, and the client is
// reset.
func TestLabDirectCase2(t *testing.T) {
	s := newScene(t, node.Config{})
	const closed = appPort + 1
	s.each(t, func(t *testing.T, v variant) {
		for _, k := range []struct {
			name     string
			from, to *lab.Space
			path     flow.Path
		}{
			{"out", v.pod, v.host, flow.Outbound},
			{"in", v.host, v.pod, flow.Inbound},
			{"pod to pod", v.pod, v.peer, flow.Inbound},
		} {
			t.Run(k.name, func(t *testing.T) {
				before := v.figures(t)
				if err := v.resetOf(t, k.from, v.app(), v.at(k.to, closed)); err != nil {
					t.Error(err)
				}
				v.closedBy(t, before, k.path, flow.CloseRefused, 1)
			})
		}
	})
}
