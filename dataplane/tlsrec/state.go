package tlsrec

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/sluice-mesh/sluice/dataplane/flow"
)

// maxSecretLen is the length of the longest traffic secret.
const maxSecretLen = 48

// MaxUnopened is the most ciphertext that a State carries: more than a loop's
// block and everything that a handshake may have kept.
const MaxUnopened = 128 << 10

// A State is everything that a connection's record layer is, between two
// records: a plain value, from which a Conn can be made anywhere.
//
// It holds secrets. Whoever has no more use for one calls Clear.
type State struct {
	Role  Role
	Suite Suite
	Read  Direction
	Write Direction

	// Unopened is ciphertext that was read and not opened yet: records behind
	// a handshake, or the part of one that has arrived.
	Unopened []byte

	// message is the part of a post-handshake message that has arrived.
	message []byte
	// idle counts messages and empty records since the last payload.
	idle uint8
	// owe is what we have to send before the next payload.
	owe uint8
	// asked says that the peer was asked for its next key.
	asked bool
}

// A Direction is one half of a State.
type Direction struct {
	// Secret is the current application traffic secret, in its first 32 or,
	// for AES-256-GCM, 48 bytes.
	Secret [maxSecretLen]byte
	// Seq is the number of the next record under this secret.
	Seq uint64
	// Closed says that close_notify was received, or sent.
	Closed bool
}

// Clear overwrites the state.
func (s *State) Clear() {
	clear(s.Unopened)
	clear(s.message)
	*s = State{}
}

const stateVersion = 1

const (
	flagReadClosed = 1 << iota
	flagWriteClosed
	flagAsked

	flagsKnown = 1<<iota - 1
)

// Append appends the state's versioned encoding. It holds the secrets.
func (s *State) Append(b []byte) []byte {
	var flags byte
	if s.Read.Closed {
		flags |= flagReadClosed
	}
	if s.Write.Closed {
		flags |= flagWriteClosed
	}
	if s.asked {
		flags |= flagAsked
	}
	b = append(b, stateVersion, byte(s.Role))
	b = binary.BigEndian.AppendUint16(b, uint16(s.Suite))
	b = append(b, flags, s.owe, s.idle)
	n := s.Suite.secretLen()
	b = append(b, s.Read.Secret[:n]...)
	b = append(b, s.Write.Secret[:n]...)
	b = binary.AppendUvarint(b, s.Read.Seq)
	b = binary.AppendUvarint(b, s.Write.Seq)
	b = flow.AppendBytes(b, s.message)
	return flow.AppendBytes(b, s.Unopened)
}

// Decode reads what Append wrote; slices of s are parts of what d reads. Faults
// are d's.
func (s *State) Decode(d *flow.Decoder) {
	*s = State{}
	d.Version("tls state", stateVersion)
	s.Role = Role(d.Byte())
	if s.Role > Server {
		d.Fail("tls state: bad role")
	}
	s.Suite = Suite(d.Byte())<<8 | Suite(d.Byte())
	if !s.Suite.known() {
		d.Fail("tls state: unknown suite")
	}
	flags := d.Byte()
	if flags&^flagsKnown != 0 {
		d.Fail("tls state: unknown flags")
	}
	s.Read.Closed, s.Write.Closed, s.asked = flags&flagReadClosed != 0, flags&flagWriteClosed != 0, flags&flagAsked != 0
	if s.owe = d.Byte(); s.owe > oweRequest {
		d.Fail("tls state: unknown debt")
	}
	if s.idle = d.Byte(); s.idle > maxIdle {
		d.Fail("tls state: too many idle messages")
	}
	n := s.Suite.secretLen()
	for _, to := range []*Direction{&s.Read, &s.Write} {
		for i := range to.Secret[:n] {
			to.Secret[i] = d.Byte()
		}
	}
	s.Read.Seq, s.Write.Seq = d.Uint(), d.Uint()
	s.message = d.Bytes(maxMessage)
	if d.Err() == nil && len(s.message) > 0 {
		if whole, err := messageLen(s.Role, s.message); err != nil || whole > 0 && len(s.message) >= whole {
			d.Fail("tls state: message is not a part of one")
		}
	}
	s.Unopened = d.Bytes(MaxUnopened)
	if d.Err() != nil {
		clear(s.Read.Secret[:])
		clear(s.Write.Secret[:])
	}
}

// String says what may be known: no secrets, so that a state in a log or in a
// test's message gives nothing away.
func (s State) String() string {
	return fmt.Sprintf("%v, %v, read %d, wrote %d, unopened %d bytes", s.Role, s.Suite, s.Read.Seq, s.Write.Seq, len(s.Unopened))
}

// Format prints String for every verb.
func (s State) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// Format prints what may be known, for every verb.
func (d Direction) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "record %d", d.Seq) }
