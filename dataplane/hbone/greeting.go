package hbone

import (
	"crypto/tls"
	"net/netip"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/end"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/gcm"
	"github.com/sluice-mesh/sluice/dataplane/h2"
	"github.com/sluice-mesh/sluice/dataplane/identity"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/dataplane/tlsrec"
)

// patience is how long it may take until a peer has shaken hands, our own wait for a
// certificate included.
const patience = 10 * time.Second

// Begin takes the lower end, whose connection is up, and shakes hands as a client.
// With a nil lower it is the tunnel's own socket.
func (t *Tunnel) Begin(lower end.End, g *tlsrec.Gate, cfg *tls.Config, us flow.Identity) {
	if t.closed {
		return
	}
	t.us, t.remote = us, t.key.To
	if lower == nil {
		lower = &t.sock
	}
	t.lower = lower
	lower.Attach((*lowerPeer)(t))
	t.loop.Arm(&t.timer, patience, t)
	t.handshake = g.Client(cfg, t)
	t.Call()
}

// Serve takes fd, a connection of remote to local, and serves the streams that the
// peer opens. It registers the tunnel's socket on l; on error fd is closed.
func Serve(l *loop.Loop, fd *sys.FD, remote, local netip.AddrPort, cipher gcm.Impl, owner Owner, to Acceptor) (*Tunnel, error) {
	t := newTunnel(l, h2.Server, cipher, owner)
	t.acceptor, t.remote, t.local = to, remote, local
	fd.MoveTo(t.sock.FD())
	if err := t.sock.Register(l, end.Client, (*lowerPeer)(t), true); err != nil {
		t.Fail(flow.CloseLimit, err)
		return nil, err
	}
	t.lower = &t.sock
	l.Arm(&t.timer, patience, t)
	return t, nil
}

// Accept shakes hands as a server, with the settings of a certificate of us.
func (t *Tunnel) Accept(g *tlsrec.Gate, cfg *tls.Config, us flow.Identity, from tlsrec.Origin) {
	if t.closed {
		return
	}
	t.us = us
	t.handshake = g.Server(cfg, from, t)
	t.Call()
	t.pull()
}

// Fire ends a handshake that takes too long.
func (t *Tunnel) Fire() { t.unproved(ErrSilent) }

// unproved ends a tunnel in which it was not proved who the peer is, or we are.
func (t *Tunnel) unproved(err error) {
	t.loop.Metrics.Inc(metric.HandshakeFailures)
	t.Fail(flow.CloseHandshake, err)
}

// HandshakeMoved has the loop look at the handshake; from anywhere.
func (t *Tunnel) HandshakeMoved(*tlsrec.Handshake) { t.loop.Post(t) }

// Call moves the handshake's bytes, and goes on when it has ended.
func (t *Tunnel) Call() {
	h := t.handshake
	if h == nil || t.closed {
		return
	}
	t.plain = append(t.plain, h.Take()...)
	t.flush()
	if t.closed {
		return
	}
	r, err := h.Result()
	switch {
	case err != nil:
		t.handshake = nil
		t.unproved(err)
	case r != nil:
		t.established(r)
	default:
		t.feed()
	}
}

// feed gives the handshake what was received, and reads on when it took all.
func (t *Tunnel) feed() {
	if len(t.unfed) > 0 {
		n := t.handshake.Feed(t.unfed)
		t.unfed = append(t.unfed[:0], t.unfed[n:]...)
		if len(t.unfed) == 0 && t.box == nil {
			t.pull()
		}
	}
}

// established goes on with the keys that the handshake has agreed on.
func (t *Tunnel) established(r *tlsrec.Result) {
	t.handshake = nil
	t.loop.Disarm(&t.timer)
	first := append(append([]byte(nil), r.State.Unopened...), t.unfed...)
	t.unfed = nil
	err := errNobody
	if len(r.Certificates) > 0 {
		t.them, err = identity.Name(r.Certificates[0])
	}
	if err == nil {
		t.records, err = tlsrec.NewConn(&r.State, t.cipher)
	}
	r.State.Clear()
	if err != nil {
		t.unproved(err)
		return
	}
	t.out.records = t.records
	t.loop.Metrics.Inc(metric.Handshakes)
	t.hello()
	t.openPending()
	if len(first) > 0 {
		in := (*inbox)(t)
		_, _ = in.Write([][]byte{first})
	}
	if !t.closed {
		t.pull()
	}
}

// hello sends what comes before all streams.
func (t *Tunnel) hello() {
	b := t.frame[:0]
	list := uint32(serverHeaderList)
	if t.role == h2.Client {
		b, list = append(b, h2.Preface...), clientHeaderList
	}
	settings := []h2.Setting{
		{ID: h2.SettingHeaderTableSize, Value: 0},
		{ID: h2.SettingInitialWindow, Value: streamWindow},
		{ID: h2.SettingMaxFrameSize, Value: maxFrame},
		{ID: h2.SettingMaxHeaderList, Value: list},
	}
	if t.role == h2.Client {
		settings = append(settings, h2.Setting{ID: h2.SettingEnablePush, Value: 0})
	} else {
		settings = append(settings, h2.Setting{ID: h2.SettingMaxStreams, Value: maxStreams})
	}
	b = h2.AppendSettings(b, settings...)
	b = h2.AppendWindowUpdate(b, 0, connWindow-h2.DefaultWindow)
	t.sized = true // our blocks use no table
	t.send(b)
}
