package session

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/h2"
	"github.com/sluice-mesh/sluice/dataplane/hbone"
	"github.com/sluice-mesh/sluice/dataplane/identity"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/dataplane/tlsrec"
)

// What a CONNECT is refused with.
const (
	statusBad         = 400
	statusTooLarge    = 431
	statusUnavailable = 503
)

// acceptTunnel takes a connection to the pod's port for tunnels, on the home loop,
// where its streams stay: their source ports are chosen there.
func (p *Pod) acceptTunnel(fd *sys.FD, t flow.Tuple) {
	tun := p.env.Tunnels
	p.tunnels.Add(1)
	tunnel, err := hbone.Serve(p.home, fd, t.Client, t.Dst, tun.Cipher, p, p)
	if err != nil {
		return // TunnelClosed was told
	}
	g := &greeting{pod: p, t: tunnel}
	if g.cert, g.err = p.source.Get(); errors.Is(g.err, identity.ErrPending) {
		p.source.Wait(g)
		return
	}
	g.Call()
}

// A greeting is a tunnel that waits for the pod's certificate.
type greeting struct {
	pod  *Pod
	t    *hbone.Tunnel
	cert *identity.Certificate
	err  error
}

// Certified is told the pod's first certificate, from anywhere.
func (g *greeting) Certified(c *identity.Certificate, err error) {
	g.cert, g.err = c, err
	g.pod.home.Post(g)
}

// Call begins the handshake.
func (g *greeting) Call() {
	switch {
	case g.t.Closed():
	case g.err != nil:
		g.t.Fail(flow.CloseIdentity, g.err)
	default:
		from := tlsrec.Origin{Pod: g.pod.number, Peer: g.t.Remote().Addr()}
		g.t.Accept(g.pod.env.Tunnels.Gate, g.cert.Server(), g.pod.source.ID(), from)
	}
}

// Connect takes a stream that a peer opens, on the home loop.
func (p *Pod) Connect(st *hbone.Stream, r *h2.Request) {
	s := p.session()
	s.path, s.loop, s.pair.Path = flow.InboundHBONE, p.home, flow.InboundHBONE
	s.id = local(p.home).nextID(p.home)
	s.hop = &hop{stream: st}
	s.hop.know(st.Tunnel())
	s.tuple = flow.Tuple{Client: st.Tunnel().Remote(), Dst: st.Tunnel().Local()}
	p.home.Metrics.Opened[s.path]++
	p.accepting = s
	s.beginStream(r)
	p.accepting = nil
}

// beginStream checks the request in the order that peers expect, and dials.
func (s *Session) beginStream(r *h2.Request) {
	p := s.pod
	at := s.hop.stream.Tunnel().Local()
	if r.TooLarge {
		s.decline(statusTooLarge, flow.CloseProtocol, "header fields of the CONNECT are too large")
		return
	}
	if !r.Connect() {
		s.decline(statusBad, flow.CloseProtocol, fmt.Sprintf("method is %q; only CONNECT is served", r.Method))
		return
	}
	to, ok := h2.ParseAuthority(r.Authority)
	switch {
	case !ok:
		s.decline(statusBad, flow.CloseProtocol, fmt.Sprintf("authority %q is neither address:port nor name:port", r.Authority))
		return
	case to.Host != "":
		s.decline(statusUnavailable, flow.CloseStraight, fmt.Sprintf("authority %q: names are not served", r.Authority))
		return
	}
	to.Addr = netip.AddrPortFrom(to.Addr.Addr().Unmap(), to.Port)
	s.tuple.Dst, s.hop.authority = to.Addr, to.Addr
	if to.Addr.Addr() != at.Addr() {
		s.decline(statusBad, flow.CloseStraight, fmt.Sprintf("ip mismatch: %v != %v", at.Addr(), to.Addr.Addr()))
		return
	}
	v := p.env.Route(s.path, s.tuple, p.Addrs())
	s.verdict, s.application, s.to = v.Kind, v.Application, v.To
	if v.Kind != flow.Direct {
		s.decline(statusUnavailable, v.Why, "")
		return
	}
	var (
		why flow.CloseReason
		err error
	)
	if s.source, s.leased, why, err = p.bind(s.server.FD(), s.tuple, v); why != flow.Open {
		s.errno = uint16(sys.ErrnoOf(err))
		s.decline(statusUnavailable, why, "")
		return
	}
	s.loop.CountFlow(1)
	local(s.loop).add(s)
	s.began = s.loop.Now()
	s.state = dialing
	s.hop.stream.Attach((*dialPeer)(s))
	s.dial()
}

// decline ends a flow whose CONNECT is refused before anything was dialled.
func (s *Session) decline(status int, why flow.CloseReason, detail string) {
	if s.verdict == flow.Undecided {
		s.verdict = flow.Deny
	}
	s.why, s.hop.detail = why, detail
	s.hop.stream.Refuse(status)
	s.hop.stream = nil
	_ = s.server.FD().Close()
	s.record()
	s.release()
}

// TunnelClosed is told of the end of each of the pod's tunnels, on the tunnel's loop.
func (p *Pod) TunnelClosed(t *hbone.Tunnel, why flow.CloseReason, err error) {
	if why == flow.ClosePanic && t.Server() {
		p.Panicked(nil) // the stream that was being accepted, if one was
	}
	switch why {
	case flow.CloseHandshake, flow.CloseIdentity, flow.CloseProtocol, flow.CloseLimit, flow.ClosePanic, flow.CloseInternal:
		if t.Server() {
			p.recordTunnel(t, why, err)
		}
	default: // the ends of its streams say it, and it may have had none for long
	}
	if p.tunnels.Add(-1) == 0 && p.leaving.Load() {
		p.home.Post(loop.Func(p.settle))
	}
}

// recordTunnel leaves a record of a peer that did not get as far as a stream.
func (p *Pod) recordTunnel(t *hbone.Tunnel, why flow.CloseReason, err error) {
	m := &t.Loop().Metrics
	ring := p.env.rings[t.Loop()]
	if ring == nil {
		return
	}
	us, them := t.Identities()
	if !ring.put(flow.Record{
		Tuple: flow.Tuple{Client: t.Remote(), Dst: t.Local()}, Path: flow.InboundHBONE, Verdict: flow.Deny, Reason: why,
		Errno: uintptr(sys.ErrnoOf(err)), EndNano: time.Now().UnixNano(), Pod: p.Info, Us: us, Them: them, Detail: err.Error(),
	}) {
		m.Inc(metric.LogDropped)
	}
}
