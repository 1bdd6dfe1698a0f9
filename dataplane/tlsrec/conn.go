package tlsrec

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/sluice-mesh/sluice/dataplane/gcm"
)

// A Conn is the record layer of one connection, its keys expanded.
//
// Invariant: a sequence number is used once. Whatever was sealed stays as it is
// until it is sent, and an error in either direction is for good.
type Conn struct {
	role  Role
	suite Suite
	impl  gcm.Impl
	read  half
	write half

	message []byte // part of a post-handshake message, or nil
	readErr error  // for good
	closed  bool   // close_notify or another alert was sealed: nothing follows
	asked   bool   // the peer was asked for its next key
	idle    uint8  // messages and empty records since the last payload
	owe     uint8
}

// What is owed to the peer before the next payload.
const (
	oweNothing = iota
	oweUpdate  // KeyUpdate
	oweRequest // KeyUpdate that asks for the peer's next key, too
)

// NewConn makes a Conn from s, of which it keeps nothing. What s has Unopened is
// for the caller to open. impl chooses the AES-GCM; gcm.Auto takes the best.
func NewConn(s *State, impl gcm.Impl) (*Conn, error) {
	if !s.Suite.known() {
		return nil, fmt.Errorf("tls: new connection: %v is not a suite of TLS 1.3 that is known here", s.Suite)
	}
	c := &Conn{
		role: s.Role, suite: s.Suite, impl: impl,
		message: bytes.Clone(s.message), closed: s.Write.Closed,
		asked: s.asked, idle: s.idle, owe: s.owe,
	}
	if s.Read.Closed {
		c.readErr = io.EOF
	}
	n := s.Suite.secretLen()
	for _, h := range []struct {
		half *half
		from *Direction
	}{{&c.read, &s.Read}, {&c.write, &s.Write}} {
		if err := h.half.set(s.Suite, impl, h.from.Secret[:n]); err != nil {
			c.Destroy()
			return nil, fmt.Errorf("tls: new connection: %w", err)
		}
		h.half.seq = h.from.Seq
	}
	return c, nil
}

// Freeze returns what the connection is and destroys it: two that seal with one
// key would use nonces twice. unopened is what the caller has read and not opened;
// the result keeps it. That reading has failed is not part of a state: such a
// connection is closed, not frozen.
func (c *Conn) Freeze(unopened []byte) State {
	defer c.Destroy()
	return State{
		Role: c.role, Suite: c.suite,
		Read:     Direction{Secret: c.read.secret, Seq: c.read.seq, Closed: errors.Is(c.readErr, io.EOF)},
		Write:    Direction{Secret: c.write.secret, Seq: c.write.seq, Closed: c.closed},
		Unopened: unopened,
		message:  bytes.Clone(c.message), idle: c.idle, owe: c.owe, asked: c.asked,
	}
}

// Format prints what may be known, for every verb: no secrets.
func (c *Conn) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "%v, %v, read %d, wrote %d", c.role, c.suite, c.read.seq, c.write.seq)
}

// Suite returns the connection's cipher suite.
func (c *Conn) Suite() Suite { return c.suite }

// Destroy overwrites the keys and secrets. Nothing but Destroy may be called
// after it.
func (c *Conn) Destroy() {
	c.read.destroy()
	c.write.destroy()
	clear(c.message)
	*c = Conn{readErr: errDestroyed, closed: true}
}
