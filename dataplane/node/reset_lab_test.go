package node_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// TestLabReset resets at every moment of a flow: a reset stays a reset, a FIN
// stays a FIN, in both directions.
func TestLabReset(t *testing.T) {
	withProxies(t, lab.Simple(1, 1, 1), settings{loops: 2}, func(t *testing.T, l *lab.Lab, p []*proxy) {
		testReset(t, ways(l, 7000), p[0])
	})
}

// TestLabHBONEReset does so through a tunnel: a reset is told by a code.
func TestLabHBONEReset(t *testing.T) {
	withMesh(t, lab.Simple(2, 1, 0), settings{loops: 2}, func(t *testing.T, l *lab.Lab, p []*proxy) {
		testReset(t, tunnelled(l, 7000), p[0])
		if n := p[1].level(metric.HeldBytes); n != 0 {
			t.Errorf("%d bytes are held on the other node when no flow is open", n)
		}
	})
}

func testReset(t *testing.T, all []way, p *proxy) {
	for _, w := range all {
		for _, tt := range []struct {
			name  string
			small bool
			do    func(j *joined)
			want  flow.CloseReason
		}{
			{"client at once", false, func(j *joined) { j.reset(j.client); j.wantReset(j.server) }, flow.CloseClientReset},
			{"server at once", false, func(j *joined) { j.reset(j.server); j.wantReset(j.client) }, flow.CloseServerReset},
			{"client in mid-stream", false, func(j *joined) {
				j.send(j.client, 1000)
				j.take(j.server, 1000)
				j.reset(j.client)
				j.wantReset(j.server)
			}, flow.CloseClientReset},
			{"server in mid-stream", false, func(j *joined) {
				j.send(j.server, 1000)
				j.take(j.client, 1000)
				j.reset(j.server)
				j.wantReset(j.client)
			}, flow.CloseServerReset},
			{"client after its own FIN", false, func(j *joined) {
				j.shut(j.client)
				j.wantEOF(j.server, 0)
				j.reset(j.client)
				eventually(j.t, "the server to be told", func() bool {
					_, err := j.server.Write([]byte("x"))
					return errors.Is(err, sys.EPIPE) || errors.Is(err, sys.ECONNRESET)
				})
			}, flow.CloseClientReset},
			{"server after its own FIN", false, func(j *joined) {
				j.shut(j.server)
				j.wantEOF(j.client, 0)
				j.reset(j.server)
				eventually(j.t, "the client to be told", func() bool {
					_, err := j.client.Write([]byte("x"))
					return errors.Is(err, sys.EPIPE) || errors.Is(err, sys.ECONNRESET)
				})
			}, flow.CloseServerReset},
			{"server after the client's FIN", false, func(j *joined) {
				j.shut(j.client)
				j.wantEOF(j.server, 0)
				j.reset(j.server)
				j.wantReset(j.client)
			}, flow.CloseServerReset},
			{"client after the server's FIN", false, func(j *joined) {
				j.shut(j.server)
				j.wantEOF(j.client, 0)
				j.reset(j.client)
				j.wantReset(j.server)
			}, flow.CloseClientReset},
			{"client with everything full", true, func(j *joined) {
				j.stuff(j.client)
				j.reset(j.client)
				j.wantReset(j.server)
			}, flow.CloseClientReset},
			{"server with everything full", true, func(j *joined) {
				j.stuff(j.client)
				j.reset(j.server)
				j.wantReset(j.client)
			}, flow.CloseServerReset},
			{"server that closes with bytes unread", false, func(j *joined) {
				j.send(j.client, 1000)
				j.take(j.server, 1)
				if err := j.server.Close(); err != nil {
					j.t.Error(err)
				}
				j.wantReset(j.client)
			}, flow.CloseServerReset},
			{"nobody: both close", false, func(j *joined) {
				j.send(j.client, 1000)
				j.take(j.server, 1000)
				if err := j.client.Close(); err != nil {
					j.t.Error(err)
				}
				j.wantEOF(j.server, 0)
				if err := j.server.Close(); err != nil {
					j.t.Error(err)
				}
			}, flow.CloseEOF},
		} {
			t.Run(w.name+"/"+tt.name, func(t *testing.T) {
				j := joinThrough(t, w.from, w.to, w.at, tt.small)
				ended := func() uint64 {
					n := p.closed(tt.want)
					// The server may be connected, and gone, before the proxy knows.
					switch tt.want {
					case flow.CloseClientReset:
						n += p.closed(flow.CloseClientGone)
					case flow.CloseServerReset:
						n += p.closed(flow.CloseRefused) + p.closed(flow.CloseStatus)
					default:
					}
					return n
				}
				before := ended()
				tt.do(j)
				eventually(t, "the flow to end with "+tt.want.String(), func() bool { return ended() == before+1 })
			})
		}
	}
	if n := p.level(metric.HeldBytes); n != 0 {
		t.Errorf("%d bytes are held when no flow is open", n)
	}
	if n := p.level(metric.PipesInUse); n != 0 {
		t.Errorf("%d pipes are in use when no flow is open", n)
	}
}

// TestLabResetWhileDialling resets before the upstream connection is up: the
// dial is cancelled, which the server's filter shows by its silence.
func TestLabResetWhileDialling(t *testing.T) {
	withProxies(t, lab.Simple(1, 1, 1), settings{loops: 2}, func(t *testing.T, l *lab.Lab, p []*proxy) {
		for _, w := range ways(l, 7000) {
			t.Run(w.name, func(t *testing.T) {
				lab.Output(t, w.to, "nft", muteSYN(l, w))
				defer lab.Output(t, w.to, "nft", "delete table inet mute")
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				before := p[0].closed(flow.CloseClientGone)
				c, err := w.from.Dial(ctx, w.at, lab.Socket{})
				if err != nil {
					t.Fatal(err) // captured: the proxy answers at once
				}
				open := p[0].level(metric.OpenFlows)
				if open != 1 {
					t.Errorf("%d flows are open; want the one that is being dialled", open)
				}
				(&joined{t: t}).reset(c)
				eventually(t, "the dial to be cancelled", func() bool { return p[0].closed(flow.CloseClientGone) == before+1 })
			})
		}
	})
}

// muteSYN is a filter that drops the proxy's SYN on the way w, and not the
// client's.
func muteSYN(l *lab.Lab, w way) string {
	iif := `iifname != "lo"`
	if w.to == l.Nodes[0].Pods[0].Space {
		iif = `iifname "lo"` // the client's comes from the network
	}
	return "add table inet mute; add chain inet mute in { type filter hook input priority 0; }; " +
		"add rule inet mute in tcp dport 7000 tcp flags syn " + iif + " counter drop"
}

// TestLabRefused dials where nobody listens: the client is reset at once, not
// after a retry.
func TestLabRefused(t *testing.T) {
	withProxies(t, lab.Simple(1, 1, 1), settings{loops: 2}, func(t *testing.T, l *lab.Lab, p []*proxy) {
		for _, w := range ways(l, 7999) {
			t.Run(w.name, func(t *testing.T) {
				before := p[0].closed(flow.CloseRefused)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				start := time.Now()
				c, err := w.from.Dial(ctx, w.at, lab.Socket{})
				if err == nil {
					(&joined{t: t}).wantReset(c)
					c.Close()
				} else if !errors.Is(err, sys.ECONNREFUSED) && !errors.Is(err, sys.ECONNRESET) {
					t.Errorf("dial: %v", err)
				}
				if took := time.Since(start); took > 500*time.Millisecond {
					t.Errorf("it took %v: a SYN was sent again", took)
				}
				eventually(t, "a refused flow", func() bool { return p[0].closed(flow.CloseRefused) == before+1 })
			})
		}
	})
}
