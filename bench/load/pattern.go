package load

import (
	"bytes"
	"math/rand/v2"
)

// patternBytes is the period of a pattern: a prime, so that blocks of any usual
// size that get lost, doubled or swapped do not fit by chance.
const patternBytes = 65521

// windowBytes is the longest window, and so the longest write of bulk.
const windowBytes = 128 << 10

// A Pattern is the endless sequence of bytes that one direction of every
// connection carries. Both sides make it from the same seed.
type Pattern struct {
	run []byte // a period and the longest window, so that none wraps
}

// NewPattern makes the pattern of one direction.
func NewPattern(seed uint64, up bool) *Pattern {
	stream := uint64(1)
	if up {
		stream = 2
	}
	rng := rand.New(rand.NewPCG(seed, stream))
	p := &Pattern{run: make([]byte, patternBytes+windowBytes)}
	for i := range patternBytes {
		p.run[i] = byte(rng.Uint32())
	}
	for at := patternBytes; at < len(p.run); {
		at += copy(p.run[at:], p.run[:patternBytes])
	}
	return p
}

// Window lends bytes of the sequence from offset on: n of them, or as many as one
// window has.
func (p *Pattern) Window(offset int64, n int) []byte {
	at := int(offset % patternBytes)
	return p.run[at : at+min(n, windowBytes)]
}

// Matches reports whether b is what the sequence holds from offset on.
func (p *Pattern) Matches(offset int64, b []byte) bool {
	for len(b) > 0 {
		w := p.Window(offset, len(b))
		if !bytes.Equal(w, b[:len(w)]) {
			return false
		}
		b, offset = b[len(w):], offset+int64(len(w))
	}
	return true
}

// edgeBytes at both ends of a read are always compared.
const edgeBytes = 64

// Fits is Matches, but for a read that is not to be compared in full: then only
// its first and last bytes are. The sequence differs from place to place, so what
// is lost, doubled or swapped shows in each read.
func (p *Pattern) Fits(offset int64, b []byte, full bool) bool {
	if full || len(b) <= 2*edgeBytes {
		return p.Matches(offset, b)
	}
	tail := len(b) - edgeBytes
	return p.Matches(offset, b[:edgeBytes]) && p.Matches(offset+int64(tail), b[tail:])
}

// A sampler picks the reads that are compared in full: one of every.
type sampler struct{ every, n int }

func (s *sampler) full() bool {
	if s.every <= 1 {
		return true
	}
	if s.n++; s.n >= s.every {
		s.n = 0
		return true
	}
	return false
}
