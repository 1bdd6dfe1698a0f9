package tap

import (
	"cmp"
	"slices"
)

// A stream puts the bytes of one direction of a connection in order.
type stream struct {
	begun   bool // the first sequence number is known
	first   uint32
	next    int64 // bytes handed on
	waiting []piece
	ended   bool // FIN

	tail []byte // the last bytes, for the border to the next packet
	take func(b []byte, packet int)
	edge func(before, behind []byte, packet int)
}

// A piece is what one packet holds.
type piece struct {
	at     int64 // in the stream
	bytes  []byte
	packet int
}

// begin says which sequence number the first byte has.
func (s *stream) begin(seq uint32) { s.begun, s.first = true, seq }

// add takes the payload of one packet.
func (s *stream) add(seq uint32, b []byte, packet int) {
	if len(b) == 0 {
		return
	}
	// Sequence numbers wrap; a window is below 1 GiB (RFC 7323, section 2.2).
	at := s.next + int64(int32(seq-s.first-uint32(s.next)))
	s.waiting = append(s.waiting, piece{at, b, packet})
	n := 0
	slices.SortStableFunc(s.waiting, func(a, b piece) int { return cmp.Compare(a.at, b.at) })
	for ; n < len(s.waiting) && s.waiting[n].at <= s.next; n++ {
		s.hand(s.waiting[n])
	}
	s.waiting = slices.Delete(s.waiting, 0, n)
}

// hand passes on what is new of a piece that is due.
func (s *stream) hand(p piece) {
	old := min(s.next-p.at, int64(len(p.bytes))) // came before
	b := p.bytes[old:]
	if len(b) == 0 {
		return
	}
	s.next += int64(len(b))
	if len(s.tail) > 0 {
		s.edge(s.tail, b[:min(jointBytes, len(b))], p.packet)
	}
	s.tail = append(s.tail, b[max(0, len(b)-jointBytes):]...)
	s.tail = slices.Clone(s.tail[max(0, len(s.tail)-jointBytes):])
	s.take(b, p.packet)
}

// gap is whether bytes are missing.
func (s *stream) gap() bool { return len(s.waiting) > 0 }
