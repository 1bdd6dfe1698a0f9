package flow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// ErrState is wrapped when a frozen state can't be decoded.
var ErrState = errors.New("frozen state is damaged or of an unknown version")

// AppendBytes appends p with its length in front.
func AppendBytes(b, p []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(p)))
	return append(b, p...)
}

// MaxDuration bounds the times in a frozen state: no flow is as old, and sums of
// a few of them do not overflow.
const MaxDuration = 10 * 365 * 24 * time.Hour

// AppendDuration appends a time that has passed or is left.
func AppendDuration(b []byte, d time.Duration) []byte {
	return binary.AppendUvarint(b, uint64(min(max(0, d), MaxDuration)))
}

// AppendAddr appends an address and port, or the lack of one.
func AppendAddr(b []byte, a netip.AddrPort) []byte {
	if !a.IsValid() {
		return AppendBytes(b, nil)
	}
	text, err := a.MarshalBinary()
	if err != nil { // netip returns none
		panic(err)
	}
	return AppendBytes(b, text)
}

// A Decoder reads what was appended, from bytes that may be hostile: it never
// reads beyond them and remembers the first fault.
type Decoder struct {
	b   []byte
	err error
}

// NewDecoder reads b; slices that it returns are parts of b.
func NewDecoder(b []byte) *Decoder { return &Decoder{b: b} }

// Err is the first fault.
func (d *Decoder) Err() error { return d.err }

// Rest is what was not read yet.
func (d *Decoder) Rest() []byte { return d.b }

// Fail records a fault, unless there was one before.
func (d *Decoder) Fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%s: %w", what, ErrState)
	}
	d.b = nil
}

// Byte reads one byte.
func (d *Decoder) Byte() byte {
	if len(d.b) == 0 {
		d.Fail("truncated")
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

// Uint reads an unsigned number.
func (d *Decoder) Uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.Fail("bad number")
		return 0
	}
	d.b = d.b[n:]
	return v
}

// Duration reads a time, of at most MaxDuration.
func (d *Decoder) Duration() time.Duration {
	n := d.Uint()
	if n > uint64(MaxDuration) {
		d.Fail("bad duration")
		return 0
	}
	return time.Duration(n)
}

// Bytes reads a counted string of at most limit bytes.
func (d *Decoder) Bytes(limit int) []byte {
	n := d.Uint()
	if n > uint64(len(d.b)) || n > uint64(limit) {
		d.Fail("bad length")
		return nil
	}
	p := d.b[:n:n]
	d.b = d.b[n:]
	return p
}

// Addr reads an address and port; the zero one stands for none.
func (d *Decoder) Addr() netip.AddrPort {
	p := d.Bytes(64)
	if len(p) == 0 {
		return netip.AddrPort{}
	}
	var a netip.AddrPort
	if err := a.UnmarshalBinary(p); err != nil {
		d.Fail("bad address")
	}
	return a
}

// Version reads a version byte and refuses any but want.
func (d *Decoder) Version(of string, want byte) {
	if v := d.Byte(); d.err == nil && v != want {
		d.Fail(fmt.Sprintf("%s version %d, want %d", of, v, want))
	}
}
