package end

import (
	"github.com/sluice-mesh/sluice/dataplane/buf"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// A Side says which side of its flow a socket is, so that a reset is blamed on
// the right one.
type Side uint8

// The sides.
const (
	Client Side = iota
	Server
)

// A Socket is an End that is a TCP connection. It is embedded in its session;
// the zero value is empty.
//
// Invariant: while held is not nil the kernel has refused bytes; nothing is
// taken until they are gone, so at most one block is held.
type Socket struct {
	loop *loop.Loop
	peer Peer
	fd   sys.FD
	tok  loop.Token
	held *buf.Block

	side       Side
	registered bool
	readable   bool // the kernel may have bytes, FIN or an error for us
	writable   bool // the kernel may take bytes
	shut       bool // the peer's FIN was announced: reading goes on until it is read
	urgent     bool // urgent data was announced: a read stops at it, whatever follows
	ended      bool // Ended was told, or the FIN was read and ours is sent
	waiting    bool // somebody was refused room and waits for Writable
	finishing  bool // a FIN follows held
	finished   bool // our FIN is sent
}

// FD lends the descriptor, for those who set it up and for splice.
func (s *Socket) FD() *sys.FD { return &s.fd }

// Register puts the socket on l: from now on it lives there. On error the
// socket is as before. connected says that its connection is up.
func (s *Socket) Register(l *loop.Loop, side Side, peer Peer, connected bool) error {
	tok, err := l.Add(&s.fd, sys.Stream, s)
	if err != nil {
		return err
	}
	s.loop, s.side, s.peer, s.tok = l, side, peer, tok
	s.registered, s.writable = true, connected
	return nil
}

// Attach says who is told.
func (s *Socket) Attach(p Peer) { s.peer = p }

// Socket is s.
func (s *Socket) Socket() *Socket { return s }

// Writable reports whether the kernel may take bytes: for a socket that is
// being connected, whether it is up.
func (s *Socket) Writable() bool { return s.writable }

// Readable reports whether the kernel may have bytes.
func (s *Socket) Readable() bool { return s.readable }

// Ready is called by the loop with what happened.
func (s *Socket) Ready(bits sys.Bits) {
	if bits&sys.Failed != 0 {
		s.lastWords()
		return
	}
	if bits&(sys.Readable|sys.Urgent|sys.PeerShut|sys.HungUp) != 0 {
		s.readable = true
		s.urgent = s.urgent || bits&sys.Urgent != 0
		s.shut = s.shut || bits&(sys.PeerShut|sys.HungUp) != 0
	}
	if bits&sys.Writable != 0 && (!s.writable || s.waiting) {
		s.writable = true
		if !s.flush() {
			return
		}
		if s.writable {
			s.waiting = false
			s.peer.Writable()
			if !s.registered {
				return // that ended the flow
			}
		}
	}
	if s.readable {
		s.peer.Readable()
	}
}

// lastWords has the peer pull first what arrived before the error, and perhaps a
// FIN before it. Taking the error makes a reset look like a FIN to who reads.
func (s *Socket) lastWords() {
	s.readable, s.shut = true, true
	s.peer.Readable() // ends with the error, if all was taken
	if s.registered {
		s.fail(sys.SocketError(&s.fd))
	}
}

// Panicked ends the flow whose socket was being served: its peer may know better
// than to take it for the end of the connection.
func (s *Socket) Panicked(v any) {
	if p, ok := s.peer.(loop.Panicker); ok {
		p.Panicked(v)
	} else if s.peer != nil {
		s.peer.Ended(flow.ClosePanic, nil)
	}
}

// fail tells the peer, once, that the connection is gone.
func (s *Socket) fail(err error) {
	if s.ended {
		return
	}
	s.ended, s.readable = true, true
	s.peer.Ended(s.reason(err), err)
}

// reason is why a connection that was up has ended with err.
func (s *Socket) reason(err error) flow.CloseReason {
	switch sys.ErrnoOf(err) {
	case sys.ECONNRESET, sys.EPIPE, sys.ECONNABORTED, sys.ECONNREFUSED, 0:
		if s.side == Client {
			return flow.CloseClientReset
		}
		return flow.CloseServerReset
	case sys.ETIMEDOUT, sys.EHOSTUNREACH, sys.ENETUNREACH:
		return flow.CloseTimeout
	case sys.ENOBUFS, sys.ENOMEM:
		return flow.CloseLimit
	}
	return flow.CloseInternal
}

// Pull reads once, into the room of dst.
func (s *Socket) Pull(dst Sink, budget int) (n int, next Wait, err error) {
	if !s.readable {
		return 0, ForReadable, nil
	}
	room := dst.Room(budget)
	if len(room) == 0 {
		return 0, ForRoom, nil
	}
	want := len(room[0])
	if len(room) == 1 {
		n, err = sys.Read(&s.fd, room[0])
	} else {
		for _, r := range room[1:] {
			want += len(r)
		}
		n, err = s.loop.Vec.Readv(&s.fd, room)
	}
	switch {
	case err == sys.EAGAIN:
		s.readable, s.urgent = false, false
		return 0, ForReadable, nil
	case err != nil:
		return 0, Ended, s.broken(err)
	case n == 0:
		s.readable = false
		return 0, Ended, nil
	}
	// A read that came back short emptied the socket: what comes later is a
	// new edge. Unless FIN was announced already, which is no new edge, or
	// urgent data, at which it stopped.
	if n < want && !s.shut && !s.urgent {
		s.readable = false
	}
	return n, Nothing, dst.Commit(n)
}

// broken turns the error of a call into the end of the connection.
func (s *Socket) broken(err error) error {
	if err == sys.EPIPE || err == sys.ECONNRESET {
		// The reset came before its event.
		if pending := sys.SocketError(&s.fd); pending != nil {
			err = pending
		}
	}
	s.fail(err)
	return err
}

// Room lends the loop's block, unless bytes are held.
func (s *Socket) Room(max int) [][]byte {
	if s.held != nil || !s.writable {
		s.waiting = true
		return nil
	}
	return s.loop.Room(max)
}

// Commit writes the first n bytes of the loop's block straight out, and keeps
// what the kernel does not take.
func (s *Socket) Commit(n int) error {
	p := s.loop.Scratch()[:n]
	for len(p) > 0 {
		sent, err := sys.Send(&s.fd, p)
		if err == sys.EAGAIN {
			s.writable = false
			return s.keep(p)
		}
		if err != nil {
			return s.broken(err)
		}
		p = p[sent:]
	}
	return nil
}

// keep holds p, which fits a block, until the kernel takes it.
func (s *Socket) keep(p []byte) error {
	b, err := s.loop.Blocks.Get()
	if err != nil {
		return s.broken(sys.ENOMEM)
	}
	b.Add(copy(b.Free(), p))
	s.held = b
	s.loop.Metrics.Move(metric.HeldBytes, int64(len(p)))
	s.loop.Metrics.Move(metric.HeldBlocks, 1)
	return nil
}

// Write writes bufs straight out and takes no more than the kernel does.
func (s *Socket) Write(bufs [][]byte) (int, error) {
	if s.held != nil || !s.writable {
		s.waiting = true
		return 0, nil
	}
	total := 0
	for _, b := range bufs {
		total += len(b)
	}
	n, err := s.loop.Vec.Writev(&s.fd, bufs)
	if err == sys.EAGAIN {
		n, err = 0, nil
	}
	if err != nil {
		return 0, s.broken(err)
	}
	if n < total {
		s.writable, s.waiting = false, true
	}
	return n, nil
}

// flush hands held bytes to the kernel, then the FIN that waits behind them. It
// reports false when that ended the flow.
func (s *Socket) flush() bool {
	for s.held != nil && s.writable {
		n, err := sys.Send(&s.fd, s.held.Filled())
		if err == sys.EAGAIN {
			s.writable = false
			return true
		}
		if err != nil {
			s.broken(err)
			return false
		}
		s.loop.Metrics.Move(metric.HeldBytes, -int64(n))
		if s.held.Consume(n); s.held.Len() == 0 {
			s.drop()
		}
	}
	if s.finishing && s.held == nil {
		s.finish()
	}
	return true
}

// drop gives the held block back, whatever is in it.
func (s *Socket) drop() {
	if s.held == nil {
		return
	}
	s.loop.Metrics.Move(metric.HeldBytes, -int64(s.held.Len()))
	s.loop.Metrics.Move(metric.HeldBlocks, -1)
	s.held.Release()
	s.held = nil
}

// Unsent is how many bytes are held.
func (s *Socket) Unsent() int {
	if s.held == nil {
		return 0
	}
	return s.held.Len()
}

// Finish sends FIN behind what was taken, or resets the connection.
func (s *Socket) Finish(why flow.CloseReason) {
	if why != flow.CloseEOF {
		s.detach()
		sys.Reset(&s.fd)
		return
	}
	s.finishing = true
	if s.held == nil {
		s.finish()
	}
}

func (s *Socket) finish() {
	if s.finished {
		return
	}
	s.finished = true
	// ENOTCONN means that a reset came in between; its event tells.
	_ = sys.ShutdownWrite(&s.fd)
}

// detach takes the socket off its loop and drops what it held.
func (s *Socket) detach() {
	if s.registered {
		s.drop()
		s.registered, s.ended = false, true
		s.loop.Remove(s.tok)
	}
}

// Close gives the socket back.
func (s *Socket) Close() {
	s.detach()
	_ = s.fd.Close()
}

// Clear makes a closed socket as good as new.
func (s *Socket) Clear() {
	if s.fd.Valid() || s.held != nil || s.registered {
		panic("end: Clear of a socket in use")
	}
	*s = Socket{}
}
