package hbone

import (
	"github.com/sluice-mesh/sluice/dataplane/buf"
	"github.com/sluice-mesh/sluice/dataplane/end"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/h2"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

const (
	// giveBack is how much of a stream's window was handed on before it is granted
	// again.
	giveBack = streamWindow / 4
	// share is what one stream may send while others wait for their turn.
	share = 64 << 10
)

// A Stream is an End that is one CONNECT of a tunnel. It has one owner, who ends it
// with Close.
//
// Invariant: bytes are in back only when the peer's sink was full or nobody pulls
// yet; the peer's window bounds them.
type Stream struct {
	tunnel *Tunnel
	peer   end.Peer
	opened Opened // of a stream of ours that is not answered yet
	block  []byte // its CONNECT, to be sent again elsewhere if need be

	h2     h2.Stream
	back   []*buf.Block // received and not pulled
	behind int          // bytes in back

	next   *Stream // in the tunnel's list of those that wait for room
	served int     // sent since it waited last

	first, last int32 // pieces that came with this read, in the tunnel's list; first is -1 for none
	reset       h2.Code

	waiting  bool // in that list
	blocked  bool // without credit of its own
	bulk     bool // fills all room that it is lent
	touched  bool // in the list of those that this read has something for
	wasReset bool // the peer has sent RST_STREAM with the code reset
	retried  bool
	answered bool // a request of the peer's that was accepted or refused
	gone     bool // out of its tunnel: nothing can be sent any more
	closed   bool // given back by its owner
}

// Attach says who is told.
func (s *Stream) Attach(p end.Peer) { s.peer = p }

// Socket is nil: there is none for splice.
func (s *Stream) Socket() *end.Socket { return nil }

// Unsent is 0: what the tunnel has taken it sends.
func (s *Stream) Unsent() int { return 0 }

// Tunnel is what the stream is part of.
func (s *Stream) Tunnel() *Tunnel { return s.tunnel }

// Pull hands dst what was received, where it lies.
func (s *Stream) Pull(dst end.Sink, budget int) (n int, next end.Wait, err error) {
	t := s.tunnel
	bufs, total := t.vec[:0], 0
	for i := 0; i < len(s.back) && total < budget && len(bufs) < cap(bufs); i++ {
		bufs = append(bufs, s.back[i].Filled())
		total += s.back[i].Len()
	}
	if s.behind == 0 && t.box != nil {
		for i := s.first; i >= 0 && total < budget && len(bufs) < cap(bufs); i = t.box.pieces[i].next {
			bufs = append(bufs, t.box.pieces[i].data)
			total += len(t.box.pieces[i].data)
		}
	}
	if total == 0 {
		if s.h2.RecvEnded() || s.unwanted() {
			return 0, end.Ended, nil
		}
		return 0, end.ForReadable, nil
	}
	n, err = dst.Write(bufs)
	clear(bufs)
	if err != nil || s.closed {
		return 0, end.Ended, err
	}
	s.taken(n)
	if n < total {
		return n, end.ForRoom, nil
	}
	return n, end.Nothing, nil
}

// taken drops the first n bytes of what was received, and grants the peer more.
func (s *Stream) taken(n int) {
	left := n
	for s.behind > 0 && left > 0 {
		b := s.back[0]
		part := min(left, b.Len())
		b.Consume(part)
		s.behind -= part
		left -= part
		s.tunnel.loop.Metrics.Move(metric.HeldBytes, -int64(part))
		if b.Len() == 0 {
			s.dropFirst()
		}
	}
	for left > 0 {
		g := &s.tunnel.box.pieces[s.first]
		part := min(left, len(g.data))
		g.data = g.data[part:]
		left -= part
		if len(g.data) == 0 {
			s.first = g.next
		}
	}
	s.h2.Recv.Owe(uint32(n))
	s.grant()
}

// grant gives the peer credit, but none to a stream that nobody reads.
func (s *Stream) grant() {
	if s.gone || s.h2.RecvEnded() || s.behind >= giveBack {
		return
	}
	if more := s.h2.Recv.Grant(giveBack); more > 0 {
		s.tunnel.send(h2.AppendWindowUpdate(s.tunnel.frame[:0], s.h2.ID, more))
	}
}

func (s *Stream) dropFirst() {
	b := s.back[0]
	s.back = append(s.back[:0], s.back[1:]...)
	b.Release()
	s.tunnel.loop.Metrics.Move(metric.HeldBlocks, -1)
}

// keep holds what came with this read and was not pulled.
func (s *Stream) keep() error {
	m := &s.tunnel.loop.Metrics
	for ; s.first >= 0; s.first = s.tunnel.box.pieces[s.first].next {
		for p := s.tunnel.box.pieces[s.first].data; len(p) > 0; {
			if k := len(s.back); k == 0 || len(s.back[k-1].Free()) == 0 {
				b, err := s.tunnel.loop.Blocks.Get()
				if err != nil {
					return err
				}
				s.back = append(s.back, b)
				m.Move(metric.HeldBlocks, 1)
			}
			b := s.back[len(s.back)-1]
			n := copy(b.Free(), p)
			b.Add(n)
			s.behind += n
			p = p[n:]
			m.Move(metric.HeldBytes, int64(n))
		}
	}
	return nil
}

// Room lends space behind the headers of frame and record.
func (s *Stream) Room(max int) [][]byte {
	t := s.tunnel
	switch {
	case s.unwanted():
		return t.loop.Room(max)
	case s.gone || !s.h2.CanSend():
		return nil
	}
	if s.h2.Send.Left() == 0 {
		s.blocked = true
		return nil
	}
	others := t.waiters.first != nil && t.waiters.first != s
	if t.window.Left() == 0 || others && s.served >= share || !t.hasRoom() {
		t.waiters.push(s)
		return nil
	}
	frame := int(t.peer.Frame)
	if others {
		frame = min(frame, share-h2.HeadBytes)
	}
	room, err := t.out.room(min(max, s.h2.Send.Left(), t.window.Left()), frame, s.bulk)
	if err != nil {
		t.Fail(flow.CloseLimit, err)
		return nil
	}
	return room
}

// Commit frames the first n bytes of the room that was lent.
func (s *Stream) Commit(n int) error {
	t := s.tunnel
	if s.gone {
		return nil
	}
	lent := t.out.lent.bytes
	if err := t.out.commit(s.h2.ID, n); err != nil {
		t.Fail(flow.CloseInternal, err)
		return err
	}
	s.h2.Send.Take(uint32(n))
	t.window.Take(uint32(n))
	s.served += n
	s.bulk = n == lent || s.bulk && n >= buf.BlockBytes/2
	t.flushLater()
	return nil
}

// Write copies bufs into room: from one tunnel to another.
func (s *Stream) Write(bufs [][]byte) (total int, err error) {
	for _, p := range bufs {
		for len(p) > 0 {
			room := s.Room(len(p))
			if room == nil {
				return total, nil
			}
			n := 0
			for _, r := range room {
				n += copy(r, p[n:])
			}
			if err := s.Commit(n); err != nil {
				return total, err
			}
			p = p[n:]
			total += n
		}
	}
	return total, nil
}

// unwanted reports that the peer takes no more and does not mind that more comes: it
// has answered in full and sent RST_STREAM with NO_ERROR (RFC 9113 8.1).
func (s *Stream) unwanted() bool { return s.wasReset && s.reset == h2.NoError }

// Accept answers a peer's CONNECT: the stream is up. baggage says who answers; empty
// leaves it out.
func (s *Stream) Accept(baggage []byte) {
	if !s.gone && !s.answered {
		s.answered = true
		s.h2.SentHeaders(false)
		s.status(200, baggage, false)
	}
}

// Refuse answers a peer's CONNECT with a status that is not 200 and closes the
// stream.
func (s *Stream) Refuse(status int) {
	if !s.gone && !s.answered {
		s.answered = true
		s.h2.SentHeaders(true)
		s.status(status, nil, true)
	}
	s.Close()
}

func (s *Stream) status(status int, baggage []byte, last bool) {
	t := s.tunnel
	b := t.tableSize(h2.BeginHeaders(t.frame[:0]))
	b = h2.AppendStatus(b, status)
	if len(baggage) > 0 {
		b = h2.AppendField(b, "baggage", baggage)
	}
	t.send(h2.EndHeaders(b, 0, s.h2.ID, last, t.peer.Frame))
}

// Finish ends our direction, or the stream.
func (s *Stream) Finish(why flow.CloseReason) {
	switch {
	case s.gone:
	case why != flow.CloseEOF:
		s.cut(resetCode(why))
	case s.h2.CanSend():
		s.h2.SentEnd()
		s.tunnel.send(h2.AppendData(s.tunnel.frame[:0], s.h2.ID, nil, true))
	}
}

// resetCode is how a peer learns that a flow has ended, and not by FIN.
func resetCode(why flow.CloseReason) h2.Code {
	switch why {
	case flow.CloseClientReset, flow.CloseServerReset, flow.CloseTimeout:
		return h2.ConnectError
	case flow.ClosePanic, flow.CloseInternal:
		return h2.InternalError
	case flow.Open, flow.CloseEOF, flow.CloseRefused, flow.CloseUnreachable, flow.CloseConnect, flow.CloseSourcePorts,
		flow.CloseClientGone, flow.CloseStraight, flow.CloseNoSource, flow.CloseIdle, flow.CloseHalf, flow.CloseDrain,
		flow.ClosePodDrain, flow.CloseLimit, flow.CloseHandshake, flow.CloseIdentity, flow.CloseStatus, flow.CloseProtocol, flow.Reasons:
	}
	return h2.Cancel
}

// cut sends RST_STREAM and takes the stream out of its tunnel.
func (s *Stream) cut(code h2.Code) {
	if !s.gone {
		if s.h2.ID != 0 {
			s.tunnel.send(h2.AppendReset(s.tunnel.frame[:0], s.h2.ID, code))
		}
		s.tunnel.remove(s, true)
	}
}

// Close gives the stream back. END_STREAM follows what was taken.
func (s *Stream) Close() {
	if s.closed {
		return
	}
	s.closed = true
	s.peer, s.opened = nil, nil
	for len(s.back) > 0 {
		s.tunnel.loop.Metrics.Move(metric.HeldBytes, -int64(s.back[0].Len()))
		s.dropFirst()
	}
	s.behind = 0
	if s.gone {
		return
	}
	s.Finish(flow.CloseEOF)
	switch {
	case s.h2.Done():
		s.tunnel.remove(s, false)
	case s.h2.CanSend() || s.h2.ID == 0 || !s.h2.Opened():
		s.cut(h2.Cancel)
	default:
		s.cut(h2.NoError) // the peer still sends, and nobody listens
	}
}

// Freeze must not be called: a stream moves with its tunnel.
func (s *Stream) Freeze([]byte, []*sys.FD) ([]byte, []*sys.FD) {
	panic("hbone: a stream can't be frozen without its tunnel")
}
