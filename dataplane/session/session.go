// Package session is one flow from accept to close, as a state machine. It is
// where the stages meet: listener hands a connection in, route decides, dial
// connects, relay moves the bytes, and the result goes to metrics and the log.
//
// Data enters by Pod.Accepted on the pod's home loop. A flow may move to
// another loop once: after its verdict and its source port, before anything of
// it is registered. What belongs to the pod is done on the home loop, before the
// move and after the end.
//
// Owns: a session its two sockets, its source port and its place in its pod; a
// pod its listeners, spare sockets and namespace. Threads: as each comment says.
package session

import (
	"net/netip"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/dial"
	"github.com/sluice-mesh/sluice/dataplane/end"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/relay"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// state is where a session is, and so who may touch it and what it waits for.
type state uint8

const (
	free      state = iota // with its pod, to be used again
	moving                 // posted to its loop, which owns it from then on
	dialing                // waits for the connect
	opening                // waits for the stream of a tunnel
	returning              // waits for a rebinding to come back from the home loop
	relaying               // waits for either end
	closing                // waits for the end of the turn
	releasing              // posted home, to give back what is the pod's
)

func (s state) String() string {
	return [...]string{"free", "moving", "dialing", "opening", "returning", "relaying", "closing", "releasing"}[s]
}

// Session is one flow. When it has ended it is used again, by the same pod. There
// are as many as there are idle flows, so its fields are in the order that makes
// it small.
type Session struct {
	// Fixed while the flow lives, but for source, which a rebinding changes.
	pod    *Pod
	loop   *loop.Loop // where the flow lives from its move on
	id     uint64
	tuple  flow.Tuple
	to     netip.AddrPort // where it is dialled to
	source netip.AddrPort // what the server's side was bound to; port 0 when the kernel chose
	began  time.Duration  // by the loop's clock; 0 before its move

	path        flow.Path
	verdict     flow.VerdictKind
	application bool // the flow goes to the pod's own application
	leased      bool // source is noted in the pod's table of ports
	held        bool // so is the client's half

	// Owned by the loop that state says.
	state   state
	retried bool             // another source port was asked for
	why     flow.CloseReason // Open until the flow has ended
	errno   uint16           // of the kernel, behind why
	client  end.Socket
	server  end.Socket
	dialing dial.Dialing
	pair    relay.Pair
	timer   loop.Timer // of the dial; then keepalive of the server's side

	hop *hop // of a flow that goes through a tunnel on one side

	next, prev *Session // among the flows of its loop
}

// begin decides what becomes of the connection in s.client, on the home loop.
func (s *Session) begin(path flow.Path, t flow.Tuple) {
	p := s.pod
	s.path, s.tuple, s.loop, s.pair.Path = path, t, p.home, path
	s.id = local(p.home).nextID(p.home)
	v := p.env.Route(path, t, p.Addrs())
	if v.Kind == flow.Tunnel {
		path = flow.OutboundHBONE
		s.path, s.pair.Path = path, path
	}
	p.home.Metrics.Opened[path]++
	s.verdict, s.application, s.to = v.Kind, v.Application, v.To
	switch v.Kind {
	case flow.Direct:
	case flow.Tunnel:
		s.beginTunnel(v)
		return
	default:
		s.refuse(v.Why, nil)
		return
	}
	if v.Application {
		p.ports.Hold(t.Client, t.Dst)
		s.held = true
	}
	var (
		why flow.CloseReason
		err error
	)
	if s.source, s.leased, why, err = p.bind(s.server.FD(), t, v); why != flow.Open {
		s.refuse(why, err)
		return
	}
	s.move(p.env.Place(p.home))
}

// move takes the flow to the loop where it lives from now on.
func (s *Session) move(to *loop.Loop) {
	p := s.pod
	s.state = moving
	s.loop = to
	s.loop.CountFlow(1)
	switch {
	case s.loop == p.home:
		s.start()
	case !s.loop.Post(s):
		s.loop.CountFlow(-1)
		s.loop = p.home
		s.refuse(flow.CloseDrain, nil)
	}
}

// refuse ends a flow that never left its home loop: the client gets a reset.
func (s *Session) refuse(why flow.CloseReason, err error) {
	s.why, s.errno = why, uint16(sys.ErrnoOf(err))
	sys.Reset(s.client.FD())
	_ = s.server.FD().Close()
	if s.hop != nil {
		s.hop.finish(s.path)
	}
	s.record()
	s.release()
}

// Call is what a move and a release post.
func (s *Session) Call() {
	if s.state == moving {
		s.start()
	} else {
		s.release()
	}
}

// start registers the client and connects, on the flow's loop.
func (s *Session) start() {
	if s.loop != s.pod.home {
		s.loop.Metrics.Inc(metric.MovedIn)
	}
	local(s.loop).add(s)
	s.began = s.loop.Now()
	s.state = dialing
	if err := s.client.Register(s.loop, end.Client, (*dialPeer)(s), true); err != nil {
		s.finish(flow.CloseLimit, err)
		return
	}
	if s.hop != nil {
		s.open()
		return
	}
	s.dial()
}

// dial connects to where the verdict says.
func (s *Session) dial() {
	silence := time.Duration(0)
	if s.leased {
		silence = s.pod.env.Silence
	}
	s.connect(silence)
}

// connect dials; silence is how long without an answer before another source
// port is tried, 0 means never.
func (s *Session) connect(silence time.Duration) {
	if err := s.dialing.Start(s.loop, &s.server, s.to, s.pod.env.Patience, silence, &s.timer, s); err != nil {
		s.Dialed(err)
	}
}

// dialPeer is what the client's end tells while its destination is dialled.
type dialPeer Session

func (p *dialPeer) Readable() {}
func (p *dialPeer) Writable() {}

// Ended cancels the dial: the client went away.
func (p *dialPeer) Ended(why flow.CloseReason, err error) {
	if why != flow.ClosePanic {
		why = flow.CloseClientGone
	}
	(*Session)(p).finish(why, err)
}

// Dialed goes on from the connect: to relaying, to another source port, or to
// the end.
func (s *Session) Dialed(err error) {
	if err == nil {
		s.armKeepalive()
		s.state = relaying
		if s.hop != nil {
			s.hop.stream.Accept(s.pod.baggage())
		}
		client, server := s.ends()
		s.pair.Join(s.loop, &s.pod.env.Relay, client, server, s)
		return
	}
	if s.leased && !s.retried && anotherPort(err) {
		s.retried = true
		s.server.Close()
		s.server.Clear()
		s.state = returning
		if s.loop == s.pod.home {
			(&rebinding{s: s}).Call()
			return
		}
		if s.pod.home.Post(&rebinding{s: s}) {
			return
		}
		err = dial.ErrTimeout // the home loop has ended, and this one is about to
	}
	s.finish(dialReason(err), err)
}

// Relayed is told by the pair that both ends are closed.
func (s *Session) Relayed(why flow.CloseReason, err error) { s.complete(why, err) }

// cut ends the flow from outside; both sides get a reset.
func (s *Session) cut(why flow.CloseReason) {
	if s.state == relaying {
		s.pair.Abort(why)
		return
	}
	s.finish(why, nil)
}

// finish ends a flow that is not relayed; the client gets a reset. One that
// waits for its rebinding is completed when that comes back.
func (s *Session) finish(why flow.CloseReason, err error) {
	if s.why != flow.Open || s.state == closing {
		return
	}
	s.dialing.Stop()
	s.client.Finish(why)
	s.server.Finish(why)
	if s.hop != nil {
		s.hop.finish(s.path)
	}
	if s.state == returning {
		s.why, s.errno = why, uint16(sys.ErrnoOf(err))
		return
	}
	s.complete(why, err)
}

// complete records the end of a flow whose sockets are closed, and hands it
// back at the end of the turn, when nobody is inside it any more.
func (s *Session) complete(why flow.CloseReason, err error) {
	s.why, s.errno = why, uint16(sys.ErrnoOf(err))
	s.record()
	s.leave()
}

// leave takes the flow off its loop.
func (s *Session) leave() {
	s.state = closing
	s.loop.Disarm(&s.timer)
	local(s.loop).remove(s)
	s.loop.CountFlow(-1)
	if s.pair.Queued() {
		s.loop.Again(s) // behind the pair's own entry
	} else {
		s.loop.Flush(s)
	}
}

// Run takes the flow home.
func (s *Session) Run() {
	if s.loop == s.pod.home {
		s.release()
		return
	}
	s.state = releasing
	s.pod.home.Post(s) // when the home loop has ended, so has the pod
}

// Panicked ends the flow when serving it panicked.
func (s *Session) Panicked(any) {
	switch s.state {
	case relaying:
		s.pair.Abort(flow.ClosePanic)
	case dialing, opening, returning:
		s.finish(flow.ClosePanic, nil)
	case free, moving, closing, releasing: // nothing of it is served by then
	}
}

// armKeepalive has the server's side probed once the flow has lasted for a
// while: the four calls would be a fifth of what a short flow costs.
func (s *Session) armKeepalive() {
	if s.pod.env.Keepalive.Idle > 0 {
		s.loop.Arm(&s.timer, keepaliveAfter, s)
	}
}

const keepaliveAfter = 5 * time.Second

// Fire turns keepalive on. That it fails means that the connection is gone,
// which its event tells.
func (s *Session) Fire() { _ = sys.SetKeepalive(s.server.FD(), s.pod.env.Keepalive) }
