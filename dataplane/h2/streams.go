package h2

import "errors"

// Why a stream of ours can't be opened on a connection.
var (
	ErrNoStreams = errors.New("no more streams on this connection: its ids are used up, or the peer or we said GOAWAY")
	ErrBusy      = errors.New("as many streams open as the peer allows")
)

// resets is how many streams that we reset are remembered.
const resets = 64

// Streams keeps which stream ids of a connection were used, by whom, and how many are
// open. The open streams themselves are in a table of the caller.
type Streams struct {
	role  Role
	max   uint32 // streams of the peer that may be open at once
	next  uint32 // id of our next stream; above MaxID when there are none left
	peer  uint32 // highest id that the peer has opened
	ours  uint32 // open streams of ours
	their uint32 // open streams of the peer

	away     bool   // the peer said GOAWAY
	last     uint32 // our streams above it were not processed
	sentAway bool   // we said GOAWAY
	sentLast uint32 // streams of the peer above it are not processed

	// The streams that we reset most recently: their peer may still be sending and
	// must not be blamed for it (RFC 9113 5.1).
	reset   [resets]uint32
	resetAt uint8
}

// NewStreams makes the bookkeeping of a new connection on which the peer may have
// limit streams open at once, as our SETTINGS say.
func NewStreams(role Role, limit uint32) Streams {
	s := Streams{role: role, max: limit, next: 1, last: MaxID, sentLast: MaxID}
	if role == Server {
		s.next = 2
	}
	return s
}

// Open takes the id of a new stream of ours.
func (s *Streams) Open(peer *Settings) (uint32, error) {
	if s.next > MaxID || s.away || s.sentAway {
		return 0, ErrNoStreams
	}
	if s.ours >= peer.Streams {
		return 0, ErrBusy
	}
	id := s.next
	s.next += 2
	s.ours++
	return id, nil
}

// Admit judges an event of a stream that is not in the caller's table. True means
// that HEADERS opens a new stream of the peer, which Close must be told of. False
// without an error means that the frame is to be ignored: what it does to the
// connection (the window, the Decoder) counts still. Frames come to the events' first
// piece only: the rest of a DATA frame may be ignored without asking.
func (s *Streams) Admit(ev *Event) (bool, error) {
	if s.idle(ev.Stream) {
		return s.admitIdle(ev)
	}
	if ev.Kind == KindReset || ev.Kind == KindWindowUpdate {
		return false, nil // may come late (RFC 9113 5.1)
	}
	if s.wasReset(ev.Stream) || s.sentAway && s.theirs(ev.Stream) && ev.Stream > s.sentLast {
		return false, nil
	}
	if ev.Kind == KindHeaders && s.theirs(ev.Stream) {
		return false, connFault(ProtocolError, "HEADERS opens a stream whose id is not above those before it (RFC 9113 5.1.1)")
	}
	return false, streamFault(ev.Stream, StreamClosed, ev.Kind.String()+" on a closed stream (RFC 9113 5.1, 6.1)")
}

func (s *Streams) admitIdle(ev *Event) (bool, error) {
	if ev.Kind != KindHeaders {
		return false, connFault(ProtocolError, ev.Kind.String()+" on an idle stream (RFC 9113 5.1)")
	}
	if !s.theirs(ev.Stream) || s.role == Client {
		return false, connFault(ProtocolError, "HEADERS on a stream that the peer can't open (RFC 9113 5.1.1)")
	}
	s.peer = ev.Stream
	if s.sentAway && ev.Stream > s.sentLast {
		return false, nil
	}
	if s.their >= s.max {
		s.noteReset(ev.Stream)
		return false, streamFault(ev.Stream, RefusedStream, "more streams than our SETTINGS_MAX_CONCURRENT_STREAMS (RFC 9113 5.1.2)")
	}
	s.their++
	return true, nil
}

// Close says that a stream has left the caller's table. Reset: we sent RST_STREAM, so
// that frames which are on their way are ignored.
func (s *Streams) Close(id uint32, reset bool) {
	if s.theirs(id) {
		s.their--
	} else {
		s.ours--
	}
	if reset {
		s.noteReset(id)
	}
}

// PeerOpen is how many streams of the peer are open, Ours how many of ours.
func (s *Streams) PeerOpen() uint32 { return s.their }

// Ours is how many streams of ours are open.
func (s *Streams) Ours() uint32 { return s.ours }

// LastPeer is the highest id that the peer has opened, for AppendGoAway.
func (s *Streams) LastPeer() uint32 { return s.peer }

// GoAway takes in a GOAWAY event: no stream of ours can be opened any more, and open
// ones for which Unprocessed is true will not be served.
func (s *Streams) GoAway(ev *Event) {
	s.away = true
	s.last = min(s.last, ev.Last) // RFC 9113 6.8: it must not grow
}

// Unprocessed reports whether the peer's GOAWAY says that it did nothing for a stream
// of ours, so that it can be tried again elsewhere.
func (s *Streams) Unprocessed(id uint32) bool { return s.away && !s.theirs(id) && id > s.last }

// Leave notes that we send GOAWAY with last: MaxID at first, to warn, then LastPeer.
// It never grows. Streams of the peer above it are ignored from now on.
func (s *Streams) Leave(last uint32) uint32 {
	s.sentAway = true
	s.sentLast = min(s.sentLast, last)
	return s.sentLast
}

// Usable reports whether a stream of ours could be opened, were there room.
func (s *Streams) Usable() bool { return !s.away && !s.sentAway && s.next <= MaxID }

// theirs reports whether the peer is the one that can open a stream of that id.
func (s *Streams) theirs(id uint32) bool { return (id&1 == 1) == (s.role == Server) }

func (s *Streams) idle(id uint32) bool {
	if s.theirs(id) {
		return id > s.peer
	}
	return id >= s.next
}

func (s *Streams) noteReset(id uint32) {
	s.reset[s.resetAt%resets] = id
	s.resetAt = (s.resetAt + 1) % resets
}

func (s *Streams) wasReset(id uint32) bool {
	for _, r := range s.reset {
		if r == id {
			return true
		}
	}
	return false
}
