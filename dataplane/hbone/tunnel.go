package hbone

import (
	"errors"
	"net/netip"

	"github.com/sluice-mesh/sluice/dataplane/buf"
	"github.com/sluice-mesh/sluice/dataplane/end"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/gcm"
	"github.com/sluice-mesh/sluice/dataplane/h2"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/tlsrec"
)

// A Tunnel is one connection that carries streams. It is made for one lower end,
// takes that with Begin, and ends by Fail or Leave.
//
// Invariant: before records is set no stream has an id; from closed on there are no
// streams, and nothing is sent.
type Tunnel struct {
	// Fixed after Begin.
	loop     *loop.Loop
	role     h2.Role
	cipher   gcm.Impl
	owner    Owner
	acceptor Acceptor // of a server
	pool     *Pool    // of a client
	key      Key      // of a client
	lower    end.End
	boxes    *boxes
	remote   netip.AddrPort
	local    netip.AddrPort
	us, them flow.Identity

	sock end.Socket // the lower end, unless that is a stream

	// While it is being set up.
	handshake *tlsrec.Handshake
	unfed     []byte // received and not taken by the handshake
	timer     loop.Timer
	pending   []*Stream // that wait for an id

	records *tlsrec.Conn
	reader  h2.Reader
	decoder h2.Decoder
	peer    h2.Settings
	ids     h2.Streams
	flood   h2.Flood
	window  h2.Window // what we may send, on all streams together
	inflow  h2.Inflow // what the peer may send
	streams map[uint32]*Stream
	waiters waiters

	plain []byte // bytes of the handshake that the lower end has not taken
	out   outbox
	tail  *buf.Block // the beginning of a record
	box   *box       // during a read
	frame []byte     // room for a frame that is being made
	vec   [mostRecords][]byte
	wvec  [8][]byte

	sized    bool // the peer has named a table size: the next block says ours
	queued   bool // to read on
	serving  bool
	again    bool // queued to serve on
	flushing bool // at the end of the turn
	leaving  bool // GOAWAY was sent
	closed   bool
}

// newTunnel makes a tunnel that has no lower end yet.
func newTunnel(l *loop.Loop, role h2.Role, cipher gcm.Impl, owner Owner) *Tunnel {
	t := &Tunnel{
		loop: l, role: role, cipher: cipher, owner: owner, boxes: localBoxes(l), frame: make([]byte, 0, 512),
		peer: h2.DefaultSettings(), window: h2.DefaultWindow, inflow: h2.NewInflow(connWindow), streams: map[uint32]*Stream{},
	}
	t.out.loop = l
	limit, list := uint32(maxStreams), uint32(serverHeaderList)
	if role == h2.Client {
		limit, list = 0, clientHeaderList
	}
	t.reader = h2.NewReader(role, maxFrame, list)
	t.decoder = h2.NewDecoder(int(list))
	t.ids = h2.NewStreams(role, limit)
	local(l).add(t)
	l.Metrics.Move(metric.OpenTunnels, 1)
	l.Metrics.Inc(metric.Tunnels)
	return t
}

// Socket lends the socket that a client's tunnel is to stand on, to be set up and
// connected on the tunnel's loop, before Begin.
func (t *Tunnel) Socket() *end.Socket { return &t.sock }

// Server reports that the peer opens the streams.
func (t *Tunnel) Server() bool { return t.role == h2.Server }

// Loop is where the tunnel lives.
func (t *Tunnel) Loop() *loop.Loop { return t.loop }

// Remote and Local are the addresses of the tunnel's connection.
func (t *Tunnel) Remote() netip.AddrPort { return t.remote }

// Local is our side's.
func (t *Tunnel) Local() netip.AddrPort { return t.local }

// Identities are who we are in this tunnel, and who the peer has proved to be.
func (t *Tunnel) Identities() (us, them flow.Identity) { return t.us, t.them }

// Closed reports that the tunnel has ended.
func (t *Tunnel) Closed() bool { return t.closed }

// Usable reports whether a stream of ours can be opened, now or later.
func (t *Tunnel) Usable() bool { return !t.closed && !t.leaving && t.ids.Usable() }

// resetReason is what the reset of a stream, or of all by the end of the connection,
// says about its flow.
func (t *Tunnel) resetReason() flow.CloseReason {
	if t.role == h2.Server {
		return flow.CloseClientReset
	}
	return flow.CloseServerReset
}

// send appends frames to what is sent when the turn ends.
func (t *Tunnel) send(frames []byte) {
	if t.closed || t.records == nil {
		return
	}
	if err := t.out.add(frames); err != nil {
		t.Fail(flow.CloseLimit, err)
		return
	}
	t.flushLater()
}

// tableSize begins a block with what our encoder has to say, once.
func (t *Tunnel) tableSize(b []byte) []byte {
	if t.sized {
		t.sized = false
		b = h2.AppendTableSize(b)
	}
	return b
}

// flusher sends at the end of a turn.
type flusher Tunnel

func (t *Tunnel) flushLater() {
	if !t.flushing {
		t.flushing = true
		t.loop.Flush((*flusher)(t))
	}
}

// Run sends.
func (f *flusher) Run() {
	f.flushing = false
	(*Tunnel)(f).flush()
}

// Panicked ends the tunnel.
func (f *flusher) Panicked(v any) { (*Tunnel)(f).Panicked(v) }

// flush hands what is to be sent to the lower end, as far as that takes it.
func (t *Tunnel) flush() {
	if t.closed {
		return
	}
	for len(t.plain) > 0 {
		t.wvec[0] = t.plain
		n, err := t.lower.Write(t.wvec[:1])
		if err != nil || n == 0 || t.closed {
			return // the lower end tells, or Writable follows
		}
		t.plain = t.plain[n:]
	}
	if t.out.open > 0 {
		err := t.out.owed()
		if err == nil {
			err = t.out.seal()
		}
		if err != nil {
			t.Fail(flow.CloseInternal, err)
			return
		}
	}
	for t.out.unsent > 0 {
		bufs, total := t.wvec[:0], 0
		for _, b := range t.out.blocks {
			if len(bufs) == cap(bufs) {
				break
			}
			bufs = append(bufs, b.Filled())
			total += b.Len()
		}
		n, err := t.lower.Write(bufs)
		clear(bufs)
		if err != nil || t.closed {
			return
		}
		t.out.sent(n)
		if n < total {
			return
		}
	}
}

// hasRoom reports whether streams may send, now that what waits was offered to the
// lower end.
func (t *Tunnel) hasRoom() bool {
	if t.out.pending() >= fullBytes {
		t.flush()
	}
	return !t.closed && t.out.pending() < fullBytes
}

// serveTurn is how many waiting streams have their turn in one of the loop's.
const serveTurn = 32

// serve lets streams that wait for room have it, in turn.
func (t *Tunnel) serve() {
	if t.serving || t.closed {
		return
	}
	t.serving = true
	for n := 0; t.waiters.first != nil && !t.closed && t.window.Left() > 0 && t.hasRoom(); n++ {
		if n == serveTurn {
			if !t.again {
				t.again = true
				t.loop.Again((*server)(t))
			}
			break
		}
		s := t.waiters.pop()
		s.served = 0
		if s.peer != nil {
			s.peer.Writable()
		}
	}
	t.serving = false
}

// server goes on to serve in the next turn.
type server Tunnel

// Run serves on.
func (s *server) Run() {
	s.again = false
	(*Tunnel)(s).serve()
}

// Panicked ends the tunnel.
func (s *server) Panicked(v any) { (*Tunnel)(s).Panicked(v) }

// remove takes a stream out of the tunnel; reset says that RST_STREAM was sent.
func (t *Tunnel) remove(s *Stream, reset bool) {
	if s.gone {
		return
	}
	s.gone = true
	t.waiters.remove(s)
	if s.h2.ID == 0 {
		for i, p := range t.pending {
			if p == s {
				t.pending = append(t.pending[:i], t.pending[i+1:]...)
				break
			}
		}
	} else {
		delete(t.streams, s.h2.ID)
		t.ids.Close(s.h2.ID, reset)
		t.loop.Metrics.Move(metric.OpenStreams, -1)
	}
	t.openPending()
	t.settle()
}

// Leave tells the peer that no more streams are taken; the tunnel ends with the last
// of those that are open.
func (t *Tunnel) Leave() {
	if t.role == h2.Server {
		t.leave(h2.NoError, "")
	}
	t.leaving = true
	t.settle()
}

func (t *Tunnel) leave(code h2.Code, debug string) {
	if t.records == nil || t.closed {
		return
	}
	t.leaving = true
	t.send(h2.AppendGoAway(t.frame[:0], t.ids.Leave(t.ids.LastPeer()), code, debug[:min(len(debug), 200)]))
}

// settle ends a tunnel that takes no more streams and has none.
func (t *Tunnel) settle() {
	over := t.leaving || t.records != nil && t.role == h2.Client && !t.ids.Usable()
	if over && !t.closed && len(t.streams) == 0 && len(t.pending) == 0 {
		t.loop.Flush((*ender)(t)) // when nobody is inside it
	}
}

// ender ends a tunnel that is done.
type ender Tunnel

// Run ends it.
func (e *ender) Run() {
	t := (*Tunnel)(e)
	if !t.closed && len(t.streams) == 0 && len(t.pending) == 0 {
		t.leave(h2.NoError, "")
		t.Fail(flow.CloseEOF, ErrClosing)
	}
}

// Panicked ends the tunnel.
func (t *Tunnel) Panicked(any) { t.Fail(flow.ClosePanic, errors.New("fault in the proxy")) }

// Fail ends the tunnel and everything in it. What was made ready is sent first, as
// far as that is possible at once.
func (t *Tunnel) Fail(why flow.CloseReason, err error) {
	if t.closed {
		return
	}
	if t.records != nil && t.lower != nil {
		t.goodbye(err)
	}
	t.closed = true
	t.loop.Disarm(&t.timer)
	if t.handshake != nil {
		t.handshake.Abort()
		t.handshake = nil
	}
	t.waiters = waiters{}
	lost := append([]*Stream(nil), t.pending...)
	for _, s := range t.streams {
		lost = append(lost, s)
	}
	t.loop.Metrics.Move(metric.OpenStreams, -int64(len(t.streams)))
	t.pending, t.streams = nil, map[uint32]*Stream{}
	if t.pool != nil {
		t.pool.forget(t)
	}
	for _, s := range lost {
		s.gone, s.waiting, s.next = true, false, nil
	}
	for _, s := range lost {
		s.broken(why, err)
	}
	t.out.close()
	t.dropTail()
	if t.records != nil {
		t.records.Destroy()
	}
	if t.lower != nil {
		t.lower.Close()
	} else {
		t.sock.Close()
	}
	local(t.loop).remove(t)
	t.loop.Metrics.Move(metric.OpenTunnels, -1)
	t.owner.TunnelClosed(t, why, err)
}

// goodbye ends the records, if they still can be ended.
func (t *Tunnel) goodbye(err error) {
	alert := tlsrec.CloseNotify
	if of, ok := errors.AsType[*tlsrec.Error](err); ok && !of.Remote {
		alert = of.Alert
	}
	if t.out.owed() != nil || t.out.seal() != nil {
		return
	}
	var buf [tlsrec.AlertLen]byte
	p, err := t.records.AppendAlert(buf[:0], alert)
	if err == nil && t.out.block() == nil {
		b := t.out.blocks[len(t.out.blocks)-1]
		t.out.sealed(b, copy(b.Free(), p))
		t.flush()
	}
}

// refuseRecord ends the tunnel because of what TLS does not allow.
func (t *Tunnel) refuseRecord(err error) {
	t.loop.Metrics.Inc(metric.TunnelFaults)
	t.Fail(flow.CloseProtocol, err)
}
