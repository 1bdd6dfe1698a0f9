package session

import (
	"time"

	"github.com/sluice-mesh/sluice/dataplane/dial"
	"github.com/sluice-mesh/sluice/dataplane/end"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// NewBarePod is a pod without a namespace: nothing can be accepted or dialled in
// it, but flows can live there.
func NewBarePod(env *Env, home *loop.Loop) *Pod {
	p := &Pod{Info: &flow.Pod{UID: "bare"}, env: env, home: home, done: make(chan struct{}), ports: dial.NewPorts(env.Ports)}
	p.own.Store(new(flow.Addrs))
	return p
}

// Adopt has a flow between two sockets live on home as if it had been accepted
// and was dialling, or was up already; on home. It returns its number.
func (p *Pod) Adopt(client, server *sys.FD, t flow.Tuple, up bool) (uint64, error) {
	s := p.session()
	s.id = local(p.home).nextID(p.home)
	s.loop, s.path, s.tuple, s.to = p.home, flow.Inbound, t, t.Dst
	s.verdict, s.application, s.held, s.leased = flow.Direct, true, true, true
	s.source = t.Client
	p.ports.Hold(t.Client, t.Dst)
	p.ports.Hold(s.source, t.Dst)
	client.MoveTo(s.client.FD())
	server.MoveTo(s.server.FD())
	s.loop.CountFlow(1)
	local(s.loop).add(s)
	s.began = s.loop.Now()
	s.state = dialing
	if err := s.client.Register(s.loop, end.Client, (*dialPeer)(s), true); err != nil {
		return 0, err
	}
	if err := s.server.Register(s.loop, end.Server, &s.dialing, up); err != nil {
		return 0, err
	}
	if up {
		s.Dialed(nil)
	} else {
		s.dialing.Resume(s.loop, time.Minute, &s.timer, s)
	}
	return s.id, nil
}

// Cut ends one flow of l; on l. It reports whether the flow is there.
func Cut(l *loop.Loop, id uint64, why flow.CloseReason) bool {
	for s := local(l).first; s != nil; s = s.next {
		if s.id == id {
			s.cut(why)
			return true
		}
	}
	return false
}

// SetEnded has the pod be drained and gone; on home.
func (p *Pod) SetEnded(ended bool) { p.ended = ended }

// CutAll ends the flows of the pod on l, as a drain does at its deadline; on l.
func (p *Pod) CutAll(l *loop.Loop, why flow.CloseReason) {
	for s := local(l).first; s != nil; {
		next := s.next
		if s.pod == p {
			s.cut(why)
		}
		s = next
	}
}

// Kept is how many sessions are in use, how many wait to be used again, and how
// many tuples are noted; on the home loop.
func (p *Pod) Kept() (live, unused, tuples int) { return p.live, len(p.unused), p.ports.Len() }
