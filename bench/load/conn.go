package load

import (
	"errors"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// A phase is what a connection waits for.
type phase uint8

const (
	closed     phase = iota // not open
	connecting              // the connect's result
	open                    // nothing: free, held, or bulk
	asking                  // the rest of a reply
	parting                 // the server's FIN
)

// busy reports whether something is under way that must end.
func (p phase) busy() bool { return p == connecting || p == asking || p == parting }

// A conn is one connection of a client.
type conn struct {
	id     uint64 // its index, for epoll
	fd     sys.FD
	phase  phase
	full   bool          // the socket takes no more until it is writable
	due    time.Duration // when the exchange began, or should have
	out    int64         // bytes sent
	in     int64         // bytes received
	unsent int           // of the request
	unread int           // of the reply
}

// connect opens c for an exchange that is due, or for bulk.
func (w *worker) connect(c *conn, due time.Duration) {
	to := w.spec.To[w.target%len(w.spec.To)]
	w.target += w.spec.Threads
	c.due, c.in, c.out, c.full = due, 0, 0, false
	c.unsent, c.unread = w.spec.Request, w.spec.Reply
	if err := sys.Socket(&c.fd, sys.FamilyOf(to.Addr())); err != nil {
		w.fail(c, "socket", err.Error())
		return
	}
	c.phase = connecting
	if err := sys.SetNoDelay(&c.fd); err != nil {
		w.fail(c, "socket", err.Error())
		return
	}
	if err := sys.Connect(&c.fd, to); err != nil && err != sys.EINPROGRESS {
		w.fail(c, "connect", err.Error())
		return
	}
	if err := w.poll.Add(&c.fd, sys.Stream, c.id); err != nil {
		w.fail(c, "epoll", err.Error())
	}
}

// ready takes an event. One for a connection that was closed and opened again
// in the same turn is told by its phase, and does no harm.
func (w *worker) ready(c *conn, bits sys.Bits) {
	if c.phase == connecting {
		if bits&(sys.Writable|sys.Failed|sys.HungUp) == 0 {
			return
		}
		if err := sys.SocketError(&c.fd); err != nil {
			w.fail(c, "connect", err.Error())
			return
		}
		w.connected(c)
	}
	if c.phase == closed {
		return
	}
	if bits&sys.Writable != 0 && c.full {
		c.full = false
		w.send(c)
	}
	if bits&(sys.Readable|sys.PeerShut|sys.HungUp|sys.Failed) != 0 && c.phase != closed {
		w.receive(c, bits&(sys.PeerShut|sys.HungUp|sys.Failed) != 0)
	}
}

func (w *worker) connected(c *conn) {
	if w.counts(w.clock.Now()) {
		w.res.Opened++
	}
	switch {
	case w.spec.Kind == Bulk:
		c.phase = open
		if !w.spec.Down {
			w.send(c)
		}
	case w.gap > 0 && w.spec.Kind == Exchange:
		c.phase = open
		w.free = append(w.free, c)
	default:
		c.phase = asking
		w.send(c)
	}
}

// start begins the exchange that was due.
func (w *worker) start(c *conn, due time.Duration) {
	if c.phase == closed {
		w.connect(c, due)
		return
	}
	c.phase, c.due = asking, due
	c.unsent, c.unread = w.spec.Request, w.spec.Reply
	w.send(c)
}

// send writes the rest of the request, or bulk for one turn.
func (w *worker) send(c *conn) {
	bulk := w.spec.Kind == Bulk
	if bulk && (w.ending || w.spec.Down || c.phase != open) {
		return
	}
	for moved := 0; bulk || c.unsent > 0; {
		n := windowBytes
		if !bulk {
			n = c.unsent
		}
		n, err := sys.Send(&c.fd, w.up.Window(c.out, n))
		if err == sys.EAGAIN {
			c.full = true
			return
		}
		if err != nil {
			w.fail(c, "send", err.Error())
			return
		}
		c.out += int64(n)
		w.res.Sent += int64(n)
		if bulk {
			if w.counts(w.clock.Now()) {
				w.res.Bytes += int64(n)
			}
			if moved += n; moved >= turnBytes {
				w.active = append(w.active, c)
				return
			}
			continue
		}
		c.unsent -= n
	}
}

// receive reads what is there. A read that does not fill the buffer emptied the
// socket, unless the peer is done: then the end is still to be read.
func (w *worker) receive(c *conn, ended bool) {
	for moved := 0; ; {
		n, err := sys.Read(&c.fd, w.buf)
		if err == sys.EAGAIN {
			return
		}
		if err != nil {
			w.fail(c, "receive", err.Error())
			return
		}
		if n == 0 {
			w.peerDone(c)
			return
		}
		if !w.down.Fits(c.in, w.buf[:n], w.sample.full()) {
			w.fail(c, "receive", "bytes differ from the pattern")
			return
		}
		c.in += int64(n)
		w.res.Received += int64(n)
		if w.spec.Kind == Bulk {
			if !w.spec.Down {
				w.fail(c, "receive", "bytes that nobody asked for")
				return
			}
			if w.counts(w.clock.Now()) {
				w.res.Bytes += int64(n)
			}
			moved += n
			if moved < turnBytes && (n == len(w.buf) || ended) {
				continue
			}
			if n == len(w.buf) {
				w.active = append(w.active, c)
			}
			return
		}
		if c.unread -= n; c.unread < 0 || c.phase != asking || c.unsent > 0 {
			w.fail(c, "receive", "bytes that nobody asked for")
			return
		}
		if c.unread == 0 {
			w.answered(c)
			if c.phase == closed || c.phase == connecting {
				return
			}
		}
		if n < len(w.buf) && !ended {
			return
		}
	}
}

// answered ends an exchange and begins what follows it.
func (w *worker) answered(c *conn) {
	now := w.clock.Now()
	w.res.Answered++
	if w.counted(c, now) {
		w.res.Exchanges++
		w.res.Bytes += int64(w.spec.Request + w.spec.Reply)
		w.res.histogram.Record(now - c.due)
	}
	switch w.spec.Kind {
	case Idle:
		c.phase = open
		w.settled++
	case Churn:
		switch w.spec.Close {
		case ServerFIN:
			c.phase = parting
			return
		case ClientReset:
			sys.Reset(&c.fd)
		case ClientFIN:
			_ = c.fd.Close() // the reply is here; the kernel sends the FIN
		}
		w.next(c, now)
	case Exchange:
		c.phase = open
		w.next(c, now)
	case Bulk:
	}
}

// next starts the next exchange, on a connection that is open or not.
func (w *worker) next(c *conn, now time.Duration) {
	if !c.fd.Valid() {
		c.phase = closed
	}
	switch {
	case w.ending:
	case w.gap > 0:
		if w.nextDue <= now { // late already: no turn of the loop between
			due := w.nextDue
			w.nextDue += w.gap
			w.start(c, due)
			return
		}
		w.free = append(w.free, c)
	default:
		w.start(c, now)
	}
}

func (w *worker) peerDone(c *conn) {
	switch {
	case c.phase == parting:
		_ = c.fd.Close()
		c.phase = closed
		w.next(c, w.clock.Now())
	case w.spec.Kind == Bulk && w.ending:
		_ = c.fd.Close()
		c.phase = closed
	default:
		w.fail(c, "receive", "the peer closed too early")
	}
}

// endBulk ends one stream: an upward one waits until the server has taken all.
func (w *worker) endBulk(c *conn) {
	if c.phase != open {
		return
	}
	if w.spec.Down {
		_ = c.fd.Close()
		c.phase = closed
		return
	}
	c.phase = parting
	if err := sys.ShutdownWrite(&c.fd); err != nil {
		w.fail(c, "shutdown", err.Error())
	}
}

// abandon counts an exchange that did not end.
func (w *worker) abandon(c *conn, now time.Duration) {
	if !c.phase.busy() {
		return
	}
	if w.spec.Kind != Bulk && c.phase != parting && (w.gap == 0 || c.due >= w.begin) {
		w.res.histogram.Record(now - c.due)
		w.res.Unserved++
	}
	w.fail(c, [...]string{closed: "", connecting: "connect", open: "", asking: "reply", parting: "end"}[c.phase], "stalled")
}

// fail counts an error and closes c, to be opened again later.
func (w *worker) fail(c *conn, step, cause string) {
	w.res.fail(step, cause)
	_ = c.fd.Close() // the error is counted already
	c.phase = closed
	if w.spec.Kind == Idle {
		w.lost++
		return
	}
	if len(w.retry) == 0 {
		w.retryAt = w.clock.Now() + retryAfter
	}
	w.retry = append(w.retry, c)
}

// reopen opens a connection that failed. In open loop a churn connection waits
// for what is due instead.
func (w *worker) reopen(c *conn) {
	if w.gap > 0 && w.spec.Kind == Churn {
		w.free = append(w.free, c)
		return
	}
	w.connect(c, w.clock.Now())
}

// counts reports whether now lies in the counted time.
func (w *worker) counts(now time.Duration) bool { return now >= w.begin && now < w.end }

// counted reports whether an exchange counts: in closed loop by when it ended,
// in open loop by when it was due.
func (w *worker) counted(c *conn, now time.Duration) bool {
	if w.gap > 0 {
		return c.due >= w.begin && c.due < w.end
	}
	return w.counts(now)
}

// isReset reports whether the peer ended a connection hard.
func isReset(err error) bool {
	return errors.Is(err, sys.ECONNRESET) || errors.Is(err, sys.EPIPE)
}
