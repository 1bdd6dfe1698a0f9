package node_test

import (
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/flow"
)

// TestLabHalfClose has one side send a little and shut, upon which the other
// streams for long and closes: each FIN arrives where it was sent, behind what
// was sent before it.
func TestLabHalfClose(t *testing.T) {
	withProxies(t, lab.Simple(1, 1, 1), settings{loops: 2}, func(t *testing.T, l *lab.Lab, p []*proxy) {
		testHalfClose(t, ways(l, 7000), p[0], 50<<20)
	})
}

// TestLabHBONEHalfClose does so through a tunnel.
func TestLabHBONEHalfClose(t *testing.T) {
	withMesh(t, lab.Simple(2, 1, 0), settings{loops: 2}, func(t *testing.T, l *lab.Lab, p []*proxy) {
		testHalfClose(t, tunnelled(l, 7000), p[0], 16<<20)
	})
}

func testHalfClose(t *testing.T, all []way, p *proxy, much int) {
	const little = 1 << 20
	for _, w := range all {
		t.Run(w.name+"/client first", func(t *testing.T) {
			j := joinThrough(t, w.from, w.to, w.at, false)
			before := p.closed(flow.CloseEOF)
			go func() { j.send(j.client, little); j.shut(j.client) }()
			j.wantEOF(j.server, little)
			go func() { j.send(j.server, much); j.shut(j.server) }()
			j.wantEOF(j.client, int64(much))
			eventually(t, "the flow to end by FIN", func() bool { return p.closed(flow.CloseEOF) == before+1 })
		})
		t.Run(w.name+"/server first", func(t *testing.T) {
			j := joinThrough(t, w.from, w.to, w.at, false)
			before := p.closed(flow.CloseEOF)
			go func() { j.send(j.server, little); j.shut(j.server) }()
			j.wantEOF(j.client, little)
			go func() { j.send(j.client, much); j.shut(j.client) }()
			j.wantEOF(j.server, int64(much))
			eventually(t, "the flow to end by FIN", func() bool { return p.closed(flow.CloseEOF) == before+1 })
		})
		t.Run(w.name+"/at once", func(t *testing.T) {
			j := joinThrough(t, w.from, w.to, w.at, false)
			j.shut(j.client)
			j.shut(j.server)
			j.wantEOF(j.client, 0)
			j.wantEOF(j.server, 0)
		})
	}
}
