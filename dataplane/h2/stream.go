package h2

const (
	opened   = 1 << iota // the peer's request or final response has come
	recvEnd              // END_STREAM came
	sentOpen             // our request or final response was sent
	sentEnd              // END_STREAM was sent
	stateBits
)

// A Stream is what the protocol prescribes about one open stream. A connection keeps
// those that are open in a table, and asks Streams about ids that are not there.
type Stream struct {
	ID    uint32
	Send  Window // what we may send; the connection's window counts, too
	Recv  Inflow // what the peer may send
	state uint8
}

// NewStream makes the state of a stream whose windows are send and recv.
func NewStream(id, send, recv uint32) Stream {
	return Stream{ID: id, Send: Window(send), Recv: NewInflow(recv)}
}

// Headers takes in a HEADERS event. Final is false for an interim response (1xx)
// only; a CONNECT stream has one final field section in each direction, and nothing
// but DATA after it (RFC 9113 8.5).
func (s *Stream) Headers(ev *Event, final bool) error {
	switch {
	case s.state&recvEnd != 0:
		return streamFault(s.ID, StreamClosed, "HEADERS after END_STREAM (RFC 9113 5.1)")
	case s.state&opened != 0:
		return streamFault(s.ID, ProtocolError, "HEADERS on a connected stream (RFC 9113 8.5)")
	case !final && ev.End:
		return streamFault(s.ID, ProtocolError, "an interim response ends the stream (RFC 9113 8.1)")
	}
	if final {
		s.state |= opened
	}
	s.end(ev)
	return nil
}

// Data takes in a DATA event. The connection's Inflow counts first, whatever this
// says (RFC 9113 6.9).
func (s *Stream) Data(ev *Event) error {
	switch {
	case s.state&recvEnd != 0:
		return streamFault(s.ID, StreamClosed, "DATA after END_STREAM (RFC 9113 5.1)")
	case s.state&opened == 0:
		return streamFault(s.ID, ProtocolError, "DATA before the response (RFC 9113 8.1)")
	case !s.Recv.Take(ev.Length):
		return streamFault(s.ID, FlowControlError, "DATA beyond the stream's window (RFC 9113 6.9.1)")
	}
	s.end(ev)
	return nil
}

func (s *Stream) end(ev *Event) {
	if ev.End {
		s.state |= recvEnd
	}
}

// WindowUpdate takes in a WINDOW_UPDATE event; it may come in any state.
func (s *Stream) WindowUpdate(ev *Event) error {
	if !s.Send.Add(ev.Increment) {
		return streamFault(s.ID, FlowControlError, "WINDOW_UPDATE takes the stream's window above 2^31-1 (RFC 9113 6.9.1)")
	}
	return nil
}

// SentHeaders notes that our request or final response has gone out.
func (s *Stream) SentHeaders(end bool) {
	s.state |= sentOpen
	if end {
		s.state |= sentEnd
	}
}

// SentEnd notes that END_STREAM has gone out.
func (s *Stream) SentEnd() { s.state |= sentEnd }

// Opened reports whether the peer's request or final response has come.
func (s *Stream) Opened() bool { return s.state&opened != 0 }

// RecvEnded reports whether the peer has sent END_STREAM: it may be granted no more.
func (s *Stream) RecvEnded() bool { return s.state&recvEnd != 0 }

// CanSend reports whether DATA may be sent, as far as the state goes.
func (s *Stream) CanSend() bool { return s.state&(sentOpen|sentEnd) == sentOpen }

// Done reports whether both sides have sent END_STREAM: the stream is closed.
func (s *Stream) Done() bool { return s.state&(recvEnd|sentEnd) == recvEnd|sentEnd }
