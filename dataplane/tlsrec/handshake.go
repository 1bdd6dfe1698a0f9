package tlsrec

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// A User owns a connection and moves the bytes of its handshake.
type User interface {
	// HandshakeMoved is called when there may be something to Take, room to
	// Feed after a Feed that was short, or a Result. It may be called on any
	// goroutine, also on the one that calls Feed or begins a handshake, so it
	// does nothing but post to the connection's loop. A last call may come
	// while Abort returns.
	HandshakeMoved(h *Handshake)
}

// A Result is what a handshake was for.
type Result struct {
	// State is where the record layer starts. What it has Unopened came
	// behind the handshake and must be opened first.
	State State
	// Certificates are the peer's, its own first.
	Certificates []*x509.Certificate
	// Protocol is what ALPN settled on, or "".
	Protocol string
}

// A Handshake is one TLS 1.3 handshake. The connection's loop feeds it what
// arrives and takes what has to be sent; crypto/tls computes on a goroutine, which
// ends by itself or by Abort. Nothing is started for a server before a whole
// ClientHello has arrived. There is no clock here: a deadline is the user's Abort.
//
// Feed, Take, Result and Abort are for one thread, the loop's.
type Handshake struct {
	// Fixed.
	gate   *Gate
	role   Role
	config *tls.Config
	user   User
	origin Origin
	ctx    context.Context // ends with the handshake
	cancel context.CancelFunc
	wake   chan struct{} // has one in it when the goroutine should look again

	// Owned by the goroutine.
	computing bool // it has one of the gate's slots

	// Guarded by gate.mu.
	listed bool
	links  [lists]links

	// Shared. mu is never held while anything is called.
	mu      sync.Mutex
	hello   hello
	in      []byte // received, and not read by crypto/tls
	inDone  int    // bytes at the start of in that were read
	recLeft int    // bytes of the record being read that were not read yet
	tooLong bool   // that record is longer than is legal, and only its header is read
	short   bool   // Feed had no room
	out     []byte // to be sent
	started bool
	ended   bool
	result  *Result
	err     error
}

// maxIn bounds what is received and not yet read: two records.
const maxIn = 2 * MaxRecord

func newHandshake(g *Gate, role Role, cfg *tls.Config, u User) *Handshake {
	h := &Handshake{gate: g, role: role, config: cfg, user: u, wake: make(chan struct{}, 1)}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Feed takes bytes that arrived and returns how many. It takes fewer when what it
// has was not dealt with yet; HandshakeMoved follows. What is fed behind the end of
// a handshake is kept for its Result, up to the same bound.
func (h *Handshake) Feed(b []byte) int {
	h.mu.Lock()
	if h.err != nil {
		h.mu.Unlock()
		return len(b)
	}
	if h.inDone > 0 {
		h.in = append(h.in[:0], h.in[h.inDone:]...)
		h.inDone = 0
	}
	n := min(len(b), maxIn-len(h.in))
	h.in = append(h.in, b[:n]...)
	h.short = n < len(b)
	var (
		start bool
		err   error
	)
	if h.role == Server && !h.started {
		start, err = h.hello.whole(h.in)
		if err == nil && !start && h.short {
			err = refuse(IllegalParameter, "ClientHello in too many records")
		}
	}
	h.mu.Unlock()
	switch {
	case err != nil:
		h.refuse(err)
	case start:
		h.start()
	default:
		h.poke()
	}
	return n
}

// Take returns what has to be sent, in order and before anything that is sealed,
// or nil. It is to be sent also when the handshake has failed: it is the alert.
func (h *Handshake) Take() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.out
	h.out = nil
	return b
}

// Result returns the result once, or the error; both are nil while the handshake
// goes on. Take comes before it, and Feed does not come behind it.
func (h *Handshake) Result() (*Result, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.result
	if r != nil {
		r.State.Unopened = h.in[h.inDone:]
		h.result, h.in, h.inDone, h.err = nil, nil, 0, errTaken
		return r, nil
	}
	return nil, h.err
}

// Abort ends the handshake, whatever it does; ending one that has ended drops its
// result.
func (h *Handshake) Abort() {
	h.finish(nil, ErrAborted)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.result != nil {
		h.result.State.Clear()
		h.result, h.err = nil, ErrAborted
	}
	h.in, h.inDone, h.out = nil, 0, nil
}

// start begins the computing.
func (h *Handshake) start() {
	h.mu.Lock()
	h.started = true
	h.mu.Unlock()
	if !h.gate.run(h.compute) {
		h.end(nil, ErrGateClosed)
	}
}

// refuse ends the handshake with an alert, before crypto/tls has seen anything of
// it.
func (h *Handshake) refuse(err error) {
	if e, ok := errors.AsType[*Error](err); ok {
		h.mu.Lock()
		h.out = append(h.out, typeAlert, legacyVersion>>8, legacyVersion&0xff, 0, 2, 2, byte(e.Alert))
		h.mu.Unlock()
	}
	h.end(nil, fmt.Errorf("tls handshake: %w", err))
}

// compute is the goroutine.
func (h *Handshake) compute() {
	r, err := h.shake()
	if h.computing {
		h.computing = false
		h.gate.rest()
	}
	if err != nil {
		err = fmt.Errorf("tls handshake: %w", err)
	}
	h.end(r, err)
}

// shake lets crypto/tls shake hands over the wire.
func (h *Handshake) shake() (r *Result, err error) {
	defer func() {
		if h.gate.limits.PanicEnds {
			return
		}
		if v := recover(); v != nil {
			r, err = nil, fmt.Errorf("%w: %v\n%s", ErrPanicked, v, debug.Stack())
		}
	}()
	if h.computing = h.gate.compute(h.ctx); !h.computing {
		return nil, ErrAborted
	}
	var keys keyLog
	defer keys.clear()
	cfg := withKeys(h.config, &keys)
	var conn *tls.Conn
	if h.role == Client {
		conn = tls.Client((*wire)(h), cfg)
	} else {
		conn = tls.Server((*wire)(h), cfg)
	}
	if err := conn.HandshakeContext(h.ctx); err != nil {
		return nil, err
	}
	cs := conn.ConnectionState()
	st, err := keys.state(h.role, Suite(cs.CipherSuite))
	if err != nil {
		return nil, err
	}
	return &Result{State: st, Certificates: cs.PeerCertificates, Protocol: cs.NegotiatedProtocol}, nil
}

// end ends the handshake, unless it has, and tells the user.
func (h *Handshake) end(r *Result, err error) {
	if h.finish(r, err) {
		h.user.HandshakeMoved(h)
	}
}

// finish ends the handshake, unless it has: the first result counts.
func (h *Handshake) finish(r *Result, err error) bool {
	h.mu.Lock()
	first := !h.ended
	if first {
		h.ended, h.result, h.err = true, r, err
	}
	h.mu.Unlock()
	if !first {
		if r != nil {
			r.State.Clear()
		}
		return false
	}
	h.gate.drop(h)
	h.cancel()
	return true
}
