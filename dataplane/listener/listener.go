// Package listener holds the transparent listening sockets in a pod.
//
// Data enters as connections of the kernel and leaves by Acceptor, with the
// tuple that the client meant. Owns: the listening socket, until Close. Threads:
// everything on the pod's home loop.
package listener

import (
	"fmt"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// An Acceptor is given each connection. It takes fd.
type Acceptor interface {
	Accepted(path flow.Path, fd *sys.FD, t flow.Tuple)
}

// Options say how a listening socket is made.
type Options struct {
	Path       flow.Path
	Port       uint16
	IPv4Only   bool
	NoReuse    bool          // leave SO_REUSEPORT out: then only one generation of the proxy can listen
	NoMark     bool          // leave SO_MARK out
	Keepalive  sys.Keepalive // of accepted sockets; zero Idle means none
	Congestion string        // of accepted sockets; "" means the host's
}

const (
	// backlog is cut by the kernel to net.core.somaxconn of the pod. A short
	// one means SYN cookies.
	backlog = 65535
	// batch is how many connections are accepted in one turn at most.
	batch = 64
	// pause is how long a listener rests when the process has run out of
	// descriptors or memory: it would be reported ready all the time.
	pause = 50 * time.Millisecond
)

// A Listener is one listening socket.
type Listener struct {
	loop   *loop.Loop
	opts   Options
	to     Acceptor
	family sys.Family

	fd    sys.FD
	tok   loop.Token
	added bool
	timer loop.Timer // of a pause
	guess int        // how many connections are tried for: what it was worth last time
	next  sys.FD     // the connection being accepted
}

// Open makes the listening socket in the thread's namespace, which the caller
// has entered on l, and does not serve it yet: all of a pod's are made before
// any starts.
func Open(l *loop.Loop, opts Options, to Acceptor) (*Listener, error) {
	n := &Listener{loop: l, opts: opts, to: to, guess: 1, family: sys.IPv6}
	if opts.IPv4Only {
		n.family = sys.IPv4
	}
	err := n.open()
	if ipv6Missing(err) {
		n.family = sys.IPv4
		err = n.open()
	}
	if err != nil {
		return nil, fmt.Errorf("listen on port %d: %w", opts.Port, err)
	}
	return n, nil
}

// ipv6Missing reports a namespace without IPv6.
func ipv6Missing(err error) bool {
	e := sys.ErrnoOf(err)
	return e == sys.EAFNOSUPPORT || e == sys.EADDRNOTAVAIL
}

func (n *Listener) open() (err error) {
	if err := sys.Socket(&n.fd, n.family); err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	defer func() {
		if err != nil {
			_ = n.fd.Close()
		}
	}()
	o := n.opts
	for _, step := range []struct {
		name string
		skip bool
		do   func() error
	}{
		{"accept IPv4 too", n.family == sys.IPv4, func() error { return sys.SetV6Only(&n.fd, false) }},
		{"SO_MARK (needs CAP_NET_ADMIN)", o.NoMark, func() error { return sys.SetMark(&n.fd, sys.Mark) }},
		{"IP_TRANSPARENT (needs CAP_NET_ADMIN)", false, func() error { return sys.SetTransparent(&n.fd, n.family) }},
		{"SO_REUSEADDR", false, func() error { return sys.SetReuseAddr(&n.fd) }},
		{"SO_REUSEPORT", o.NoReuse, func() error { return sys.SetReusePort(&n.fd) }},
		{"SO_OOBINLINE", false, func() error { return sys.SetUrgentInline(&n.fd) }},
		{"TCP_NODELAY", false, func() error { return sys.SetNoDelay(&n.fd) }},
		{"keepalive", o.Keepalive.Idle == 0, func() error { return sys.SetKeepalive(&n.fd, o.Keepalive) }},
		{"congestion control " + o.Congestion, o.Congestion == "", func() error { return sys.SetCongestion(&n.fd, o.Congestion) }},
		{"bind", false, func() error { return sys.BindAny(&n.fd, n.family, o.Port) }},
		{"listen", false, func() error { return sys.Listen(&n.fd, backlog) }},
	} {
		if step.skip {
			continue
		}
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// Serve starts to accept. On error the listener is closed.
func (n *Listener) Serve() error {
	tok, err := n.loop.Add(&n.fd, sys.Readable, n)
	if err != nil {
		_ = n.fd.Close()
		return fmt.Errorf("watch port %d: %w", n.opts.Port, err)
	}
	n.tok, n.added = tok, true
	return nil
}

// Ready accepts what is waiting. As long as one connection came per event no
// second accept is tried: the event is repeated if there is one.
func (n *Listener) Ready(sys.Bits) {
	got := n.accept(n.guess)
	if got == n.guess {
		n.guess = min(2*n.guess, batch)
	} else {
		n.guess = max(got, 1)
	}
}

// accept takes up to max connections and returns how many there were.
func (n *Listener) accept(max int) (got int) {
	m := &n.loop.Metrics
	for got < max && n.fd.Valid() {
		peer, err := sys.Accept(&n.fd, &n.next)
		switch err {
		case nil:
		case sys.EAGAIN:
			return got
		case sys.EMFILE, sys.ENFILE, sys.ENOBUFS, sys.ENOMEM:
			m.Inc(metric.AcceptErrors)
			n.rest()
			return got
		default:
			// The connection was gone again, or the network had an error to
			// report for it (accept(2)): the next one may be fine.
			m.Inc(metric.AcceptErrors)
			_ = n.next.Close()
			got++
			continue
		}
		got++
		m.Inc(metric.Accepted)
		dst, err := n.originalDst(&n.next)
		if err != nil {
			m.Inc(metric.AcceptErrors)
			sys.Reset(&n.next)
			continue
		}
		n.to.Accepted(n.opts.Path, &n.next, flow.Tuple{Client: peer, Dst: dst})
	}
	return got
}

// Panicked ends the connection that was being accepted, whoever has it.
func (n *Listener) Panicked(v any) {
	sys.Reset(&n.next)
	if p, ok := n.to.(loop.Panicker); ok {
		p.Panicked(v)
	}
}

// rest takes the listener off the loop for a while.
func (n *Listener) rest() {
	if !n.added {
		return
	}
	n.added = false
	// It fails only for a descriptor that is not watched.
	_ = n.loop.Detach(n.tok, &n.fd)
	n.loop.Arm(&n.timer, pause, n)
}

// Fire goes on after a rest.
func (n *Listener) Fire() {
	if n.fd.Valid() && n.Serve() != nil {
		n.loop.Metrics.Inc(metric.AcceptErrors)
	}
}

// Close accepts what already waits in the queue, so that nobody who was let in
// is turned away, and closes the socket.
func (n *Listener) Close() {
	if !n.fd.Valid() {
		return
	}
	for n.accept(batch) == batch {
	}
	n.loop.Disarm(&n.timer)
	if n.added {
		n.added = false
		n.loop.Remove(n.tok)
	}
	_ = n.fd.Close()
}
