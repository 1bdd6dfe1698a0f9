package session

import (
	"errors"
	"net/netip"

	"github.com/sluice-mesh/sluice/dataplane/dial"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/hbone"
	"github.com/sluice-mesh/sluice/dataplane/identity"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// A tunnelDial makes the connection of a tunnel: it waits for the pod's certificate
// on the tunnel's loop, has a socket made on the home loop, and connects it on the
// tunnel's again. It is one per tunnel, so it may allocate. It owns the socket until
// the tunnel has it.
type tunnelDial struct {
	pod  *Pod
	loop *loop.Loop
	key  hbone.Key
	t    *hbone.Tunnel
	step tunnelStep

	cert  *identity.Certificate
	why   flow.CloseReason // Open until the socket could not be made
	err   error
	fd    sys.FD
	dial  dial.Dialing
	timer loop.Timer
}

type tunnelStep uint8

const (
	certified tunnelStep = iota // posted to the tunnel's loop
	making                      // posted to the home loop
	made                        // posted back
)

// DialTunnel makes the connection of t, for the pool of l.
func (p *Pod) DialTunnel(l *loop.Loop, k hbone.Key, t *hbone.Tunnel) {
	p.tunnels.Add(1)
	if p.leaving.Load() {
		t.Leave()
	}
	d := &tunnelDial{pod: p, loop: l, key: k, t: t}
	if d.cert, d.err = p.source.Get(); errors.Is(d.err, identity.ErrPending) {
		p.source.Wait(d)
		return
	}
	d.Call()
}

// Certified is told the pod's first certificate, from anywhere.
func (d *tunnelDial) Certified(c *identity.Certificate, err error) {
	d.cert, d.err = c, err
	d.loop.Post(d)
}

// Call is the step on the loop that it was posted to.
func (d *tunnelDial) Call() {
	switch d.step {
	case certified:
		switch {
		case d.t.Closed():
		case d.err != nil:
			d.t.Fail(flow.CloseIdentity, d.err)
		default:
			d.post(making, d.pod.home)
		}
	case making:
		from := flow.Tuple{Client: netip.AddrPortFrom(d.key.Source, 0)}
		_, _, d.why, d.err = d.pod.bind(&d.fd, from, flow.Verdict{To: d.key.To, Source: d.key.Source})
		d.post(made, d.loop)
	case made:
		d.connect()
	}
}

func (d *tunnelDial) post(next tunnelStep, to *loop.Loop) {
	d.step = next
	if d.loop == d.pod.home {
		d.Call()
	} else if !to.Post(d) {
		_ = d.fd.Close() // the program ends
	}
}

// connect connects it, on the tunnel's loop.
func (d *tunnelDial) connect() {
	switch {
	case d.t.Closed():
		_ = d.fd.Close()
	case d.why != flow.Open:
		d.t.Fail(d.why, d.err)
	default:
		d.fd.MoveTo(d.t.Socket().FD())
		env := d.pod.env
		if env.Keepalive.Idle > 0 {
			_ = sys.SetKeepalive(d.t.Socket().FD(), env.Keepalive) // it can only fail later, by its event
		}
		if err := d.dial.Start(d.loop, d.t.Socket(), d.key.To, env.Patience, 0, &d.timer, d); err != nil {
			d.Dialed(err)
		}
	}
}

// Dialed begins the handshake.
func (d *tunnelDial) Dialed(err error) {
	switch {
	case d.t.Closed():
	case err != nil:
		d.t.Fail(dialReason(err), err)
	default:
		us := d.pod.source.ID()
		d.t.Begin(nil, d.pod.env.Tunnels.Gate, d.cert.Client([]flow.Identity{d.key.Peer}), us)
	}
}

// Panicked ends the tunnel.
func (d *tunnelDial) Panicked(v any) {
	if d.step != making {
		d.t.Panicked(v)
	}
}
