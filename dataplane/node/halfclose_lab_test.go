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
	const little, much = 1 << 20, 50 << 20
	withProxies(t, lab.Simple(1, 1, 1), settings{loops: 2}, func(t *testing.T, l *lab.Lab, p []*proxy) {
		for _, w := range ways(l, 7000) {
			t.Run(w.name+"/client first", func(t *testing.T) {
				j := joinThrough(t, w.from, w.to, w.at, false)
				before := p[0].closed(flow.CloseEOF)
				go func() { j.send(j.client, little); j.shut(j.client) }()
				j.wantEOF(j.server, little)
				go func() { j.send(j.server, much); j.shut(j.server) }()
				j.wantEOF(j.client, much)
				eventually(t, "the flow to end by FIN", func() bool { return p[0].closed(flow.CloseEOF) == before+1 })
			})
			t.Run(w.name+"/server first", func(t *testing.T) {
				j := joinThrough(t, w.from, w.to, w.at, false)
				before := p[0].closed(flow.CloseEOF)
				go func() { j.send(j.server, little); j.shut(j.server) }()
				j.wantEOF(j.client, little)
				go func() { j.send(j.client, much); j.shut(j.client) }()
				j.wantEOF(j.server, much)
				eventually(t, "the flow to end by FIN", func() bool { return p[0].closed(flow.CloseEOF) == before+1 })
			})
			t.Run(w.name+"/at once", func(t *testing.T) {
				j := joinThrough(t, w.from, w.to, w.at, false)
				j.shut(j.client)
				j.shut(j.server)
				j.wantEOF(j.client, 0)
				j.wantEOF(j.server, 0)
			})
		}
	})
}
