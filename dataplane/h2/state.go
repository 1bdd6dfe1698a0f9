package h2

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrState is wrapped when a frozen state can't be thawed.
var ErrState = errors.New("frozen HTTP/2 state is damaged or of an unknown version")

// stateVersion is the first byte of every frozen value of this package.
const stateVersion = 1

// A stateReader reads what was frozen, from bytes that may be hostile: never beyond
// them, and remembering the first fault.
type stateReader struct {
	b   []byte
	of  string
	err error
}

func newStateReader(of string, b []byte) stateReader {
	r := stateReader{b: b, of: of}
	if v := r.byte(); r.err == nil && v != stateVersion {
		r.fail(fmt.Sprintf("version %d, want %d", v, stateVersion))
	}
	return r
}

func (r *stateReader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %s: %w", r.of, what, ErrState)
	}
	r.b = nil
}

func (r *stateReader) check(ok bool, what string) {
	if !ok {
		r.fail(what)
	}
}

func (r *stateReader) byte() byte {
	if len(r.b) == 0 {
		r.fail("truncated")
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

// uint reads a number of at most limit.
func (r *stateReader) uint(limit uint32) uint32 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > uint64(limit) {
		r.fail("bad number")
		return 0
	}
	r.b = r.b[n:]
	return uint32(v)
}

// bytes reads a counted string of at most limit bytes; nil when it is empty.
func (r *stateReader) bytes(limit uint32) []byte {
	n := r.uint(limit)
	if uint64(n) > uint64(len(r.b)) {
		r.fail("bad length")
	}
	if n == 0 || r.err != nil {
		return nil
	}
	p := append([]byte(nil), r.b[:n]...)
	r.b = r.b[n:]
	return p
}

// done checks that nothing is left.
func (r *stateReader) done() error {
	if r.err == nil && len(r.b) > 0 {
		r.fail("bytes behind the end")
	}
	return r.err
}

func appendUints(b []byte, values ...uint32) []byte {
	for _, v := range values {
		b = binary.AppendUvarint(b, uint64(v))
	}
	return b
}

func appendBytes(b, p []byte) []byte { return append(appendUints(b, uint32(len(p))), p...) }

// bits packs flags, the first one lowest.
func bits(flags ...bool) (v byte) {
	for i, f := range flags {
		if f {
			v |= 1 << i
		}
	}
	return v
}
