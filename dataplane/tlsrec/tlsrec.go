// Package tlsrec is the record layer of TLS 1.3 on the loop: it opens and seals
// records in place, after crypto/tls has done the handshake.
//
// Ciphertext enters by Conn.Open, in the block that it was read into, and its
// payloads leave as slices of that block. Payload enters by Seal, SealEach and
// SealTo, which leave records to be sent where the caller wants them. What a
// peer may send besides data (KeyUpdate, NewSessionTicket, alerts, padding) is
// handled inside; what we have to say ourselves the caller fetches with AppendOwed
// and AppendAlert.
//
// A Handshake moves the bytes of a handshake between a loop and the goroutine
// on which crypto/tls computes, and ends in a State, the plain value that a Conn
// is made from and that can be written down.
//
// Owns: a Conn its keys, from NewConn to Destroy; a Handshake its goroutine; a
// Gate all handshakes that were begun through it. Threads: a Conn is used by one
// thread at a time; each type of the handshake says what may be called where.
package tlsrec

import "fmt"

// Sizes of a record, in bytes (RFC 8446 5.1 and 5.2).
const (
	// HeaderLen is what stands before the payload.
	HeaderLen = 5
	// TrailerLen is what stands behind it: the content type and the tag.
	TrailerLen = 1 + tagLen
	// Overhead is what a record is longer than its payload.
	Overhead = HeaderLen + TrailerLen
	// MaxPlaintext is the most payload that a record holds.
	MaxPlaintext = 1 << 14
	// MaxSealed is the longest record that we seal.
	MaxSealed = Overhead + MaxPlaintext
	// MaxRecord is the longest record that a peer may send, padding included.
	MaxRecord = HeaderLen + maxCiphertext

	tagLen        = 16
	nonceLen      = 12
	maxCiphertext = MaxPlaintext + 256
)

// SealedLen returns how long n bytes of payload are when SealTo has sealed them.
func SealedLen(n int) int {
	return n + Overhead*((n+MaxPlaintext-1)/MaxPlaintext)
}

// A Role is a side of a connection.
type Role uint8

// The roles.
const (
	Client Role = iota
	Server
)

// String returns the name that logs use.
func (r Role) String() string {
	switch r {
	case Client:
		return "client"
	case Server:
		return "server"
	}
	return fmt.Sprintf("role(%d)", uint8(r))
}

// A contentType says what a record holds (RFC 8446 5.1).
type contentType = byte

const (
	typeChangeCipherSpec contentType = 20
	typeAlert            contentType = 21
	typeHandshake        contentType = 22
	typeApplicationData  contentType = 23
)

// legacyVersion is in every record's header.
const legacyVersion = 0x0303

// putHeader writes the header of a protected record of n bytes, itself
// included, into b.
func putHeader(b []byte, n int) {
	n -= HeaderLen
	_ = b[HeaderLen-1]
	b[0], b[1], b[2], b[3], b[4] = typeApplicationData, legacyVersion>>8, legacyVersion&0xff, byte(n>>8), byte(n)
}
