package node_test

import (
	"errors"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/node"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// TestLabDirectCase4 has the application close and the other side send more: the
// kernel's reset goes to the proxy, which passes it on, and never to the other
// side itself, which has no such connection.
func TestLabDirectCase4(t *testing.T) {
	s := newScene(t, node.Config{})
	s.each(t, func(t *testing.T, v variant) {
		// The one out of the pod, and the one into it.
		for i, p := range v.applications(t, v.listen(t, appPort)) {
			path, why := flow.Outbound, flow.CloseClientReset
			if i == 1 {
				path, why = flow.Inbound, flow.CloseServerReset
			}
			before := v.figures(t)
			strays := v.watch(t, v.node, "prerouting priority -300", "", p.row())
			p.app.Close()
			p.wantEOF(p.other, 0)
			eventually(t, "the other side to be told", func() bool {
				_, err := p.other.Write([]byte("more"))
				return errors.Is(err, sys.EPIPE) || errors.Is(err, sys.ECONNRESET)
			})
			v.closedBy(t, before, path, why, 1)
			if n := strays.count(); n != 0 {
				t.Errorf("%v: %d packets of the application's half got out", path, n)
			}
		}
	})
}
