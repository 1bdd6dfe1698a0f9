package session

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/dial"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/hbone"
	"github.com/sluice-mesh/sluice/dataplane/identity"
	"github.com/sluice-mesh/sluice/dataplane/listener"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/route"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// A Pod is an enrolled network namespace and what its flows share.
type Pod struct {
	// Fixed after Open.
	Info *flow.Pod
	env  *Env
	ns   *netns.Handle
	home *loop.Loop
	done chan struct{}
	addr *netns.AddrWatch

	own atomic.Pointer[flow.Addrs] // the pod's addresses; from anywhere

	source  *identity.Source // of the pod's certificate; nil when there are no tunnels
	number  uint64           // of the pod, for the bounds of handshakes
	tunnels atomic.Int64     // that are open, on any loop
	leaving atomic.Bool      // no tunnel is kept without streams

	// Owned by the home loop.
	maker     *dial.Maker
	ports     *dial.Ports
	binder    binder
	said      description
	listeners []*listener.Listener
	accepting *Session // while Accepted runs
	unused    []*Session
	live      int // sessions in use, wherever they are
	draining  bool
	ended     bool // and its last flow is gone
	drainWhy  flow.CloseReason
	timer     loop.Timer
}

// Open takes ns and serves the pod from home: its listeners accept when Open
// returns without an error, and none of them otherwise. From any goroutine but
// a loop's.
func Open(env *Env, info flow.Pod, ns *netns.Handle, home *loop.Loop) (*Pod, error) {
	p := &Pod{Info: &info, env: env, ns: ns, home: home, done: make(chan struct{})}
	p.own.Store(new(flow.Addrs))
	watch, err := netns.WatchAddrs(ns, func(a flow.Addrs) { p.own.Store(&a) })
	if err != nil {
		_ = ns.Close()
		return nil, err
	}
	p.addr = watch
	if err := p.prove(); err != nil {
		watch.Close()
		_ = ns.Close()
		return nil, err
	}
	err = fmt.Errorf("loop %d has ended", home.ID())
	home.Do(func() { err = p.listen() })
	if err != nil {
		p.unprove()
		watch.Close()
		_ = ns.Close()
		return nil, err
	}
	return p, nil
}

// prove begins to keep a certificate for the pod, if tunnels are served.
func (p *Pod) prove() (err error) {
	tun := p.env.Tunnels
	if tun == nil {
		return nil
	}
	p.number = tun.pods.Add(1)
	p.source, err = tun.Identities.Acquire(flow.Identity{
		TrustDomain: tun.TrustDomain, Namespace: p.Info.Namespace, ServiceAccount: p.Info.ServiceAccount,
	})
	if err != nil {
		return fmt.Errorf("identity of pod %s: %w", p.Info.UID, err)
	}
	return nil
}

func (p *Pod) unprove() {
	if p.source != nil {
		p.source.Release()
	}
}

// Addrs are the pod's own addresses; from anywhere.
func (p *Pod) Addrs() flow.Addrs { return *p.own.Load() }

// listen makes all listeners, then serves all, on the home loop.
func (p *Pod) listen() error {
	p.maker = dial.NewMaker(p.home, p.ns.FD(), dial.Options{NoMark: p.env.NoMark, Congestion: p.env.Congestion})
	p.ports = dial.NewPorts(p.env.Ports)
	opts := listener.Options{
		IPv4Only: p.env.IPv4Only, NoReuse: p.env.NoReuse, NoMark: p.env.NoMark, Keepalive: p.env.Keepalive,
	}
	outbound, inbound, tunnels := opts, opts, opts
	outbound.Path, outbound.Port, outbound.Congestion = flow.Outbound, route.PortOutbound, p.env.Congestion
	inbound.Path, inbound.Port = flow.Inbound, route.PortInbound
	tunnels.Path, tunnels.Port = flow.InboundHBONE, route.PortHBONE
	all := []listener.Options{inbound, outbound}
	if p.source != nil {
		all = append([]listener.Options{tunnels}, all...)
	}
	err := p.home.Enter(p.ns.FD(), func() error {
		for _, o := range all {
			l, err := listener.Open(p.home, o, p)
			if err != nil {
				return err
			}
			p.listeners = append(p.listeners, l)
		}
		return nil
	})
	for _, l := range p.listeners {
		if err == nil {
			err = l.Serve()
		}
	}
	if err != nil {
		p.closeListeners()
		p.maker.Close()
	}
	return err
}

func (p *Pod) closeListeners() {
	for _, l := range p.listeners {
		l.Close()
	}
	p.listeners = nil
}

// Accepted takes fd, a connection that was captured, on the home loop.
func (p *Pod) Accepted(path flow.Path, fd *sys.FD, t flow.Tuple) {
	if path == flow.InboundHBONE {
		p.acceptTunnel(fd, t)
		return
	}
	s := p.session()
	fd.MoveTo(s.client.FD())
	p.accepting = s
	s.begin(path, t)
	p.accepting = nil
}

// Panicked ends the flow that was being accepted.
func (p *Pod) Panicked(v any) {
	s := p.accepting
	p.accepting = nil
	if s == nil {
		return
	}
	if s.state == free {
		s.refuse(flow.ClosePanic, nil)
		return
	}
	s.Panicked(v)
}

// session is one that was used before, or a new one.
func (p *Pod) session() *Session {
	p.live++
	if n := len(p.unused); n > 0 {
		s := p.unused[n-1]
		p.unused = p.unused[:n-1]
		return s
	}
	return &Session{pod: p}
}

// release gives back what the flow had of the pod, on the home loop, and the
// session itself.
func (s *Session) release() {
	p := s.pod
	if s.held {
		p.ports.Release(s.tuple.Client, s.tuple.Dst)
	}
	if s.leased {
		p.ports.Release(s.source, s.tuple.Dst)
	}
	s.client.Clear()
	s.server.Clear()
	*s = Session{pod: p}
	p.unused = append(p.unused, s)
	p.live--
	p.settle()
}

// Drain closes the listeners, after what waits in their queues was accepted,
// and lets open flows run to their own end, at most for limit; then they are
// cut for the reason why. It returns at once; from anywhere. A second call can
// only shorten the limit.
func (p *Pod) Drain(limit time.Duration, why flow.CloseReason) {
	p.home.Post(loop.Func(func() {
		if p.ended {
			return
		}
		p.closeListeners()
		if p.draining && p.home.Left(&p.timer) <= limit {
			return
		}
		p.draining, p.drainWhy = true, why
		p.leave()
		p.home.Arm(&p.timer, limit, p)
		p.settle()
	}))
}

// Done is closed when the pod was drained and its last flow is gone.
func (p *Pod) Done() <-chan struct{} { return p.done }

// Fire cuts the flows that have outlived the drain deadline.
func (p *Pod) Fire() {
	for _, l := range p.env.loops {
		l.Post(loop.Func(func() {
			for s := local(l).first; s != nil; {
				next := s.next
				if s.pod == p {
					s.cut(p.drainWhy)
				}
				s = next
			}
			for _, t := range hbone.Of(l, p) {
				t.Fail(p.drainWhy, hbone.ErrClosing)
			}
		}))
	}
}

// leave ends tunnels as they become empty.
func (p *Pod) leave() {
	p.leaving.Store(true)
	for _, l := range p.env.loops {
		l.Post(loop.Func(func() {
			for _, t := range hbone.Of(l, p) {
				t.Leave()
			}
		}))
	}
}

// settle ends the pod when it is drained and empty.
func (p *Pod) settle() {
	if !p.draining || p.live > 0 || p.tunnels.Load() > 0 || p.ended {
		return
	}
	p.ended = true
	p.home.Disarm(&p.timer)
	p.maker.Close()
	go p.close()
}

// close ends what is not of the loop; it may wait for the address watch.
func (p *Pod) close() {
	p.addr.Close()
	p.unprove()
	_ = p.ns.Close()
	close(p.done)
}
