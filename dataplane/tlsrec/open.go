package tlsrec

import (
	"errors"
	"io"
)

var errDestroyed = errors.New("tls: connection was destroyed")

// Open opens the records at the start of b in place, one after the other, and
// appends the payload of each that holds data to out, as long as out has room
// without growing. Everything else that records hold is dealt with; ask Owes
// after Open.
//
// It returns out and how many bytes of b are done with. It stops at the first
// record that is not whole (Missing tells how much of it), when out is full, or
// at an error; payloads before the error are good.
//
// The error is io.EOF once the peer has sent close_notify, and what is behind
// that is ignored (RFC 8446 6.1); any other is an *Error and says what to send
// with AppendAlert. Errors are for good.
func (c *Conn) Open(b []byte, out [][]byte) (payloads [][]byte, n int, err error) {
	for c.readErr == nil && len(out) < cap(out) {
		size, err := recordLen(b[n:])
		if err != nil {
			c.readErr = err
			break
		}
		if size == 0 || size > len(b)-n {
			break
		}
		payload, err := c.open(b[n : n+size])
		if err != nil {
			c.readErr = err
			break
		}
		n += size
		if len(payload) > 0 {
			out = append(out, payload)
		}
	}
	if c.read.seq >= updateAfter && !c.asked && !c.closed {
		c.asked, c.owe = true, oweRequest
	}
	if errors.Is(c.readErr, io.EOF) {
		n = len(b)
	}
	return out, n, c.readErr
}

// Missing returns how many more bytes than b the record at its start needs, as
// far as can be told, and 0 if it is whole or what its header says is wrong.
func Missing(b []byte) int {
	if len(b) < HeaderLen {
		return HeaderLen - len(b)
	}
	size, err := recordLen(b)
	if err != nil {
		return 0
	}
	return max(0, size-len(b))
}

// recordLen returns the length of the protected record at the start of b, with
// its header, or 0 when b is shorter than a header.
//
// The version in it is ignored (RFC 8446 5.1); that it arrived as it was sent is
// for the tag to say.
func recordLen(b []byte) (int, error) {
	if len(b) < HeaderLen {
		return 0, nil
	}
	if b[0] != typeApplicationData {
		return 0, refuse(UnexpectedMessage, unprotected(b[0]))
	}
	n := int(b[3])<<8 | int(b[4])
	if n > maxCiphertext {
		return 0, refuse(RecordOverflow, "record is longer than 16640 bytes")
	}
	return HeaderLen + n, nil
}

// unprotected says what an unprotected record was.
func unprotected(t contentType) string {
	switch t {
	case typeChangeCipherSpec:
		return "change_cipher_spec after the handshake"
	case typeAlert:
		return "unprotected alert after the handshake"
	case typeHandshake:
		return "unprotected handshake record after the handshake"
	}
	return "record of an unknown type"
}

// open opens the whole record rec and returns its payload, if it is one.
func (c *Conn) open(rec []byte) ([]byte, error) {
	if c.read.exhausted() {
		return nil, refuse(InternalError, "sequence numbers of received records are used up")
	}
	inner, err := c.read.key.Open(rec[HeaderLen:HeaderLen], c.read.take(), rec[HeaderLen:], rec[:HeaderLen])
	if err != nil {
		return nil, refuse(BadRecordMAC, "record does not authenticate")
	}
	if len(inner) > MaxPlaintext+1 {
		return nil, refuse(RecordOverflow, "record holds more than 16384 bytes")
	}
	end := len(inner)
	for end > 0 && inner[end-1] == 0 { // padding
		end--
	}
	if end == 0 {
		return nil, refuse(UnexpectedMessage, "record has no content type")
	}
	body := inner[:end-1]
	switch inner[end-1] {
	case typeApplicationData:
		if len(c.message) > 0 {
			return nil, refuse(UnexpectedMessage, "data between the parts of a message")
		}
		if len(body) == 0 {
			return nil, c.idled()
		}
		c.idle = 0
		return body, nil
	case typeHandshake:
		return nil, c.messages(body)
	case typeAlert:
		return nil, c.alert(body)
	case typeChangeCipherSpec:
		return nil, refuse(UnexpectedMessage, "protected change_cipher_spec")
	}
	return nil, refuse(UnexpectedMessage, "protected record of an unknown type")
}

// alert ends the connection as the peer wishes.
func (c *Conn) alert(body []byte) error {
	switch {
	case len(c.message) > 0:
		return refuse(UnexpectedMessage, "alert between the parts of a message")
	case len(body) == 0:
		return refuse(UnexpectedMessage, "empty alert record")
	case len(body) != 2:
		return refuse(DecodeError, "alert record does not hold one alert")
	}
	// The level says nothing in TLS 1.3 (RFC 8446 6).
	switch a := Alert(body[1]); a {
	case CloseNotify:
		return io.EOF
	case UserCanceled: // close_notify follows
		return c.idled()
	default:
		return &Error{Alert: a, Remote: true}
	}
}

// maxIdle is how many messages and empty records in a row a peer may send without
// any data. An honest one sends a few tickets, and a KeyUpdate each 2^24 records.
const maxIdle = 32

// idled counts something that carries no data.
func (c *Conn) idled() error {
	if c.idle == maxIdle {
		return refuse(UnexpectedMessage, "too many records without data in a row")
	}
	c.idle++
	return nil
}
