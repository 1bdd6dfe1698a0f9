package hbone

import (
	"fmt"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/h2"
)

// A ResetError is the code of a peer's RST_STREAM.
type ResetError h2.Code

// Error names the code.
func (e ResetError) Error() string { return fmt.Sprintf("peer reset the stream: %v", h2.Code(e)) }

// answer tells who opened the stream how that went.
func (s *Stream) answer(why flow.CloseReason, err error) {
	o := s.opened
	s.opened = nil
	if why != flow.Open {
		s.cut(h2.Cancel)
		s.Close()
	}
	if o != nil {
		o.Opened(why, err)
	}
}

// broken tells whoever has the stream that it is out of its tunnel.
func (s *Stream) broken(why flow.CloseReason, err error) {
	switch {
	case s.closed:
	case s.opened != nil:
		s.answer(why, err)
	case s.peer != nil:
		s.peer.Ended(why, err)
	}
}

// faulty ends a stream on which the peer broke the protocol.
func (s *Stream) faulty(err *h2.StreamError) {
	s.cut(err.Code)
	s.broken(flow.CloseProtocol, err)
}

// ended tells of the peer's RST_STREAM, after what came before it.
func (s *Stream) ended() {
	switch {
	case s.opened != nil && s.reset == h2.RefusedStream:
		s.refused()
	case s.opened == nil && s.unwanted() && s.peer != nil:
		s.peer.Readable() // a FIN
	default:
		s.broken(s.tunnel.resetReason(), ResetError(s.reset))
	}
}

// refused tries a stream that the peer did nothing for once more, on a fresh tunnel:
// no byte of it was sent.
func (s *Stream) refused() {
	t := s.tunnel
	switch {
	case s.opened == nil:
		s.broken(t.resetReason(), ErrRefused)
	case s.retried || t.pool == nil:
		s.answer(t.resetReason(), ErrRefused)
	default:
		s.retried = true
		t.pool.again(t, s)
	}
}
