package tap

import (
	"encoding/binary"
	"fmt"
)

// Record types and limits of TLS (RFC 8446, section 5).
const (
	typeCCS       = 20
	typeAlert     = 21
	typeHandshake = 22
	typeData      = 23

	headerBytes    = 5
	maxRecordBytes = 1<<14 + 256
	leastDataBytes = 1 + 16 // the content's type and the tag
	maxHelloBytes  = 1 << 16
)

// What the bytes of a direction are.
type kind int

const (
	hello  kind = iota // ClientHello, ServerHello, and the empty record of middlebox compatibility
	sealed             // records of application data, which in TLS 1.3 is all that is encrypted
	clear              // everything else
	kinds
)

// records walks the records of one direction.
type records struct {
	server bool // this is what the server sends
	count  func(k kind, n, packet int)

	off      bool // these are no records, or not any more: all is clear
	why      string
	at       int64 // bytes walked
	head     []byte
	left     int // of the record
	kind     kind
	records  int
	sealed   int // of them application data
	message  []byte
	collect  bool // the record belongs to a message
	client   *clientHello
	choice   *serverHello // of the server's direction
	retried  bool
	changing bool // inside a record that may hold one byte, 1, only
}

// add walks the next bytes.
func (r *records) add(b []byte, packet int) {
	for len(b) > 0 {
		if r.off {
			r.at += int64(len(b))
			r.count(clear, len(b), packet)
			return
		}
		if r.left == 0 {
			n := min(headerBytes-len(r.head), len(b))
			r.head = append(r.head, b[:n]...)
			b = b[n:]
			r.header(packet)
			continue
		}
		n := min(r.left, len(b))
		r.body(b[:n], packet)
		b = b[n:]
	}
}

// header looks at a record's header as soon as it shows what it is not.
func (r *records) header(packet int) {
	h := r.head
	if len(h) >= 3 && (h[0] < typeCCS || h[0] > typeData || h[1] != 3 || h[2] > 4) || len(h) < 3 && (h[0] < typeCCS || h[0] > typeData) {
		r.stop(packet, "no TLS record: it begins with % x", h)
		return
	}
	if len(h) < headerBytes {
		return
	}
	n := int(binary.BigEndian.Uint16(h[3:]))
	if n == 0 && h[0] != typeData || n > maxRecordBytes {
		r.stop(packet, "a TLS record of type %d with %d bytes", h[0], n)
		return
	}
	r.left, r.collect, r.changing = n, false, false
	switch h[0] {
	case typeData:
		if n < leastDataBytes {
			r.stop(packet, "a record of application data with %d bytes, too short to be encrypted", n)
			return
		}
		r.kind = sealed
		r.sealed++
	case typeHandshake:
		r.kind, r.collect = hello, true
	case typeCCS:
		if n != 1 {
			r.stop(packet, "a change_cipher_spec record with %d bytes", n)
			return
		}
		r.kind, r.changing = hello, true
	case typeAlert:
		r.kind = clear
	}
	r.records++
	r.count(r.kind, headerBytes, packet)
	r.at += headerBytes
	r.head = r.head[:0]
}

// body takes bytes of the record.
func (r *records) body(b []byte, packet int) {
	r.left -= len(b)
	r.at += int64(len(b))
	switch {
	case r.changing && b[0] != 1:
		r.count(clear, len(b), packet)
		r.fault("a change_cipher_spec record with the byte %#x", b[0])
		return
	case r.collect:
		if why := r.handshake(b); why != "" {
			r.count(clear, len(b), packet)
			r.fault("%s", why)
			return
		}
	}
	r.count(r.kind, len(b), packet)
}

// handshake gathers a message that is readable: a hello, and nothing else.
func (r *records) handshake(b []byte) (why string) {
	r.message = append(r.message, b...)
	for len(r.message) >= 4 {
		n := 4 + int(r.message[1])<<16 + int(binary.BigEndian.Uint16(r.message[2:]))
		if typ := r.message[0]; r.server && typ != typeServerHello || !r.server && typ != typeClientHello {
			return fmt.Sprintf("a readable handshake message of type %d (%s)", typ, messageName(typ))
		}
		if n > maxHelloBytes {
			return fmt.Sprintf("a hello of %d bytes", n)
		}
		if len(r.message) < n {
			return ""
		}
		if err := r.hello(r.message[4:n]); err != nil {
			return err.Error()
		}
		r.message = r.message[n:]
	}
	return ""
}

func (r *records) hello(body []byte) (err error) {
	if r.server {
		r.choice, err = parseServerHello(body)
		r.retried = r.retried || err == nil && r.choice.retry
		return err
	}
	r.client, err = parseClientHello(body)
	return err
}

// stop gives the record's header up as clear bytes, and all that follows.
func (r *records) stop(packet int, format string, args ...any) {
	r.fault(format, args...)
	r.at += int64(len(r.head))
	r.count(clear, len(r.head), packet)
	r.head = nil
}

func (r *records) fault(format string, args ...any) {
	r.off = true
	r.why = fmt.Sprintf("byte %d: ", r.at) + fmt.Sprintf(format, args...)
}

// inside is whether the bytes end within a record or message.
func (r *records) inside() bool { return r.left > 0 || len(r.head) > 0 || len(r.message) > 0 }
