package tlsrec

import (
	"io"
	"net"
	"time"
)

// A wire is the connection that crypto/tls sees. Reading gives one record at a
// time, so that nothing behind the handshake is taken out of the loop's hands, and
// does not compute while it waits. Writing never waits.
type wire Handshake

// Read waits for a whole record, and returns what is left of it or as much as p
// holds.
func (w *wire) Read(p []byte) (int, error) {
	h := (*Handshake)(w)
	for {
		n, tell, err := h.read(p)
		if n > 0 || err != nil {
			return n, err
		}
		h.computing = false
		h.gate.rest()
		if tell {
			h.user.HandshakeMoved(h)
		}
		select {
		case <-h.wake:
		case <-h.ctx.Done():
		}
		if h.computing = h.gate.compute(h.ctx); !h.computing {
			return 0, net.ErrClosed
		}
	}
}

// read is Read without waiting; tell says that the user should look.
func (h *Handshake) read(p []byte) (n int, tell bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return 0, false, net.ErrClosed
	}
	if h.recLeft == 0 && h.tooLong {
		return 0, false, io.ErrUnexpectedEOF // crypto/tls did not refuse it
	}
	in := h.in[h.inDone:]
	if h.recLeft == 0 {
		h.recLeft, h.tooLong = wholeRecord(in)
	}
	if h.recLeft == 0 {
		tell = len(h.out) > 0 || h.short
		return 0, tell, nil
	}
	n = copy(p, in[:h.recLeft])
	h.inDone += n
	h.recLeft -= n
	return n, false, nil
}

// wholeRecord returns the length of the record at the start of b, or 0 when it is
// not whole. Of one that is too long to be legal it is that of the header, which
// is for crypto/tls to refuse.
func wholeRecord(b []byte) (n int, tooLong bool) {
	if len(b) < HeaderLen {
		return 0, false
	}
	switch n := int(b[3])<<8 | int(b[4]); {
	case n > maxCiphertext:
		return HeaderLen, true
	case len(b) < HeaderLen+n:
		return 0, false
	default:
		return HeaderLen + n, false
	}
}

// poke makes the goroutine look again when there is a record for it.
func (h *Handshake) poke() {
	h.mu.Lock()
	n, _ := wholeRecord(h.in[h.inDone:])
	ready := n > 0 && h.started && !h.ended
	h.mu.Unlock()
	if !ready {
		return
	}
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// Write keeps p to be sent.
func (w *wire) Write(p []byte) (int, error) {
	h := (*Handshake)(w)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		return 0, net.ErrClosed
	}
	h.out = append(h.out, p...)
	return len(p), nil
}

// Close is for crypto/tls when the context ends; the handshake has ended then.
func (w *wire) Close() error { return nil }

// LocalAddr names nothing: the socket is the loop's.
func (w *wire) LocalAddr() net.Addr { return memory{} }

// RemoteAddr names nothing.
func (w *wire) RemoteAddr() net.Addr { return memory{} }

// SetDeadline does nothing: deadlines are the user's.
func (w *wire) SetDeadline(time.Time) error { return nil }

// SetReadDeadline does nothing.
func (w *wire) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline does nothing.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// memory is the address of something that has none.
type memory struct{}

func (memory) Network() string { return "memory" }
func (memory) String() string  { return "memory" }
