package tlsrec

import "bytes"

// Post-handshake messages (RFC 8446 4.6).
const (
	messageHeaderLen = 4

	newSessionTicket = 4
	keyUpdate        = 24

	updateNotRequested = 0
	updateRequested    = 1

	// maxTicket is the longest NewSessionTicket: lifetime and age, nonce, ticket
	// and extensions, each with its length.
	maxTicket  = 4 + 4 + 1 + 255 + 2 + 1<<16 - 1 + 2 + 1<<16 - 2
	maxMessage = messageHeaderLen + maxTicket
)

// messages takes the handshake messages, or parts of them, in one record.
func (c *Conn) messages(body []byte) error {
	if len(body) == 0 {
		return refuse(UnexpectedMessage, "empty handshake record") // RFC 8446 5.1
	}
	rest := body
	if len(c.message) > 0 {
		c.message = append(c.message, body...)
		rest = c.message
	}
	took := false
	for len(rest) > 0 {
		n, err := messageLen(c.role, rest)
		if err != nil {
			return err
		}
		if n == 0 || n > len(rest) {
			break
		}
		if err := c.take(rest[:n], len(rest) > n); err != nil {
			return err
		}
		rest, took = rest[n:], true
	}
	switch {
	case len(rest) == 0:
		c.message = nil
	case took || len(c.message) == 0:
		c.message = bytes.Clone(rest)
	}
	return nil
}

// messageLen returns the length of the message that starts b, or 0 when it is
// not known yet. One that role may not get after the handshake is refused at its
// first byte.
func messageLen(role Role, b []byte) (int, error) {
	limit, least := maxTicket, 4+4+1+2+1+2
	switch {
	case b[0] == newSessionTicket && role == Client:
	case b[0] == keyUpdate:
		limit, least = 1, 1
	default:
		return 0, refuse(UnexpectedMessage, "handshake message that nobody asked for")
	}
	if len(b) < messageHeaderLen {
		return 0, nil
	}
	n := int(b[1])<<16 | int(b[2])<<8 | int(b[3])
	if n > limit || n < least {
		return 0, refuse(DecodeError, "handshake message of a wrong length")
	}
	return messageHeaderLen + n, nil
}

// take deals with a whole message; more says that its record goes on.
func (c *Conn) take(m []byte, more bool) error {
	if err := c.idled(); err != nil {
		return err
	}
	body := m[messageHeaderLen:]
	if m[0] == newSessionTicket {
		if !validTicket(body) {
			return refuse(DecodeError, "malformed NewSessionTicket")
		}
		return nil // we never resume
	}
	if body[0] > updateRequested {
		return refuse(IllegalParameter, "malformed KeyUpdate")
	}
	if more { // RFC 8446 5.1
		return refuse(UnexpectedMessage, "KeyUpdate does not end its record")
	}
	if err := c.read.update(c.suite, c.impl); err != nil {
		return &Error{Alert: InternalError, Reason: err.Error()}
	}
	c.asked = false
	if body[0] == updateRequested && c.owe == oweNothing && !c.closed {
		c.owe = oweUpdate
	}
	return nil
}

// validTicket reports whether b is the body of a NewSessionTicket.
func validTicket(b []byte) bool {
	_, b, ok := counted(b[8:], 1) // lifetime and age before the nonce
	if !ok {
		return false
	}
	ticket, b, ok := counted(b, 2)
	if !ok || len(ticket) == 0 {
		return false
	}
	extensions, b, ok := counted(b, 2)
	if !ok || len(b) > 0 {
		return false
	}
	for len(extensions) > 0 {
		if len(extensions) < 2 {
			return false
		}
		if _, extensions, ok = counted(extensions[2:], 2); !ok {
			return false
		}
	}
	return true
}

// counted splits b behind a vector whose length is in its first size bytes.
func counted(b []byte, size int) (vector, rest []byte, ok bool) {
	if len(b) < size {
		return nil, nil, false
	}
	n := 0
	for _, v := range b[:size] {
		n = n<<8 | int(v)
	}
	b = b[size:]
	if n > len(b) {
		return nil, nil, false
	}
	return b[:n], b[n:], true
}
