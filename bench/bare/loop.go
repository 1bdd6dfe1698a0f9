package bare

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

const (
	turnBytes  = 1 << 20
	bufBytes   = 256 << 10
	listenData = 1 << 63 // marks a listener's events
	heartbeat  = 50 * time.Millisecond
)

// A loop is one thread with its own listeners, epoll and flows.
type loop struct {
	cfg       Config
	poll      sys.Poller
	listeners []*sys.FD
	flows     []*flow // by slot
	unused    []int
	again     []*half
	buf       []byte
	pipes     []*pipe
	ports     chooser
}

// A flow has two ends: 0 is the client's, 1 the server's.
type flow struct {
	slot  int
	gen   uint64 // of the slot: an event for an older flow is dropped
	fd    [2]sys.FD
	dir   [2]half // dir[i] moves from end i to the other
	open  bool    // connected
	ended bool
}

// A half moves bytes one way.
type half struct {
	f        *flow
	from     int
	readable bool
	shut     bool // the FIN, or worse, was announced: a short read is not the end
	full     bool // the target took less than it was given
	queued   bool
	finished bool
	pipe     *pipe  // splice: while bytes are in it
	held     int    // in the pipe
	rest     []byte // copy: what the target did not take
}

type pipe struct{ r, w sys.FD }

func newLoop(c Config, i int) (*loop, error) {
	l := &loop{cfg: c, buf: make([]byte, bufBytes), ports: newChooser(i, c.Loops)}
	if err := l.poll.Open(); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	for n, port := range c.Ports {
		f := new(sys.FD)
		if err := listen(f, port); err != nil {
			l.close()
			return nil, err
		}
		l.listeners = append(l.listeners, f)
		if err := l.poll.Add(f, sys.Readable, listenData|uint64(n)); err != nil {
			l.close()
			return nil, fmt.Errorf("epoll: %w", err)
		}
	}
	return l, nil
}

func (l *loop) close() {
	for _, f := range l.flows {
		if f != nil && !f.ended {
			l.end(f, false)
		}
	}
	for _, f := range l.listeners {
		_ = f.Close()
	}
	for _, p := range l.pipes {
		_, _ = p.r.Close(), p.w.Close()
	}
	_ = l.poll.Close()
}

func (l *loop) run(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer l.close()
	events := make([]sys.Event, 256)
	for ctx.Err() == nil {
		n, err := l.poll.Poll(events, 0)
		if n == 0 && err == nil && len(l.again) == 0 {
			n, err = l.poll.Wait(events, heartbeat)
		}
		if err != nil {
			return fmt.Errorf("bare relay: epoll wait: %w", err)
		}
		for i := range events[:n] {
			l.event(events[i].Data(), events[i].Bits())
		}
		turn := l.again
		l.again = nil
		for _, h := range turn {
			h.queued = false
			l.pump(h)
		}
	}
	return nil
}

func (l *loop) event(d uint64, bits sys.Bits) {
	if d&listenData != 0 {
		l.accept(int(d &^ listenData))
		return
	}
	end := int(d & 1)
	f := l.flows[d>>1&0xffffff]
	if f == nil || f.ended || f.gen != d>>25&0xffffffff {
		return
	}
	if end == 1 && !f.open && bits&(sys.Writable|sys.Failed|sys.HungUp) != 0 {
		f.open = true
		f.dir[1].full = false
	}
	if bits&sys.Writable != 0 {
		f.dir[1-end].full = false
	}
	if bits&(sys.Readable|sys.PeerShut|sys.HungUp|sys.Failed) != 0 {
		f.dir[end].readable = true
		f.dir[end].shut = f.dir[end].shut || bits&(sys.PeerShut|sys.HungUp|sys.Failed) != 0
	}
	if !f.open {
		return
	}
	l.pump(&f.dir[0])
	if !f.ended {
		l.pump(&f.dir[1])
	}
}

func (l *loop) accept(n int) {
	for range 64 {
		f := new(flow)
		client, err := sys.Accept(l.listeners[n], &f.fd[0])
		if err != nil {
			return // EAGAIN, or the client has gone
		}
		for i := range f.dir {
			f.dir[i].f, f.dir[i].from = f, i
		}
		port := l.cfg.Ports[n]
		to, err := target(&f.fd[0], port)
		if err == nil {
			err = l.ports.dial(&f.fd[1], client, to, port == l.cfg.App, l.cfg.Own)
		}
		if err != nil && err != sys.EINPROGRESS {
			sys.Reset(&f.fd[0])
			_ = f.fd[1].Close()
			continue
		}
		l.add(f)
	}
}

func (l *loop) add(f *flow) {
	if n := len(l.unused); n > 0 {
		f.slot = l.unused[n-1]
		l.unused = l.unused[:n-1]
		f.gen = (l.flows[f.slot].gen + 1) & 0xffffffff
		l.flows[f.slot] = f
	} else {
		f.slot = len(l.flows)
		l.flows = append(l.flows, f)
	}
	for i := range f.fd {
		if err := l.poll.Add(&f.fd[i], sys.Stream, f.gen<<25|uint64(f.slot)<<1|uint64(i)); err != nil {
			l.end(f, true)
			return
		}
	}
}

// end closes both ends, with a reset when something went wrong.
func (l *loop) end(f *flow, reset bool) {
	f.ended = true
	for i := range f.fd {
		if reset {
			sys.Reset(&f.fd[i])
		} else {
			_ = f.fd[i].Close()
		}
		if p := f.dir[i].pipe; p != nil {
			_, _ = p.r.Close(), p.w.Close() // it still holds bytes
			f.dir[i].pipe = nil
		}
	}
	l.unused = append(l.unused, f.slot)
}

// pump moves what one direction has, for one turn at most.
func (l *loop) pump(h *half) {
	f := h.f
	if f.ended || h.finished || h.full || (!h.readable && h.held == 0 && len(h.rest) == 0) {
		return
	}
	var err error
	var eof bool
	if l.cfg.Engine == Splice {
		eof, err = l.splice(h)
	} else {
		eof, err = l.copy(h)
	}
	switch {
	case err != nil:
		l.end(f, true)
	case eof:
		h.finished = true
		if f.dir[1-h.from].finished {
			l.end(f, false)
		} else if err := sys.ShutdownWrite(&f.fd[1-h.from]); err != nil {
			l.end(f, true)
		}
	}
}

func (l *loop) requeue(h *half) {
	if !h.queued {
		h.queued = true
		l.again = append(l.again, h)
	}
}

// splice: between calls held bytes sit in the pipe, and it is filled only when
// it is empty, so that EAGAIN means an empty source.
func (l *loop) splice(h *half) (eof bool, err error) {
	src, dst := &h.f.fd[h.from], &h.f.fd[1-h.from]
	if h.pipe == nil {
		if h.pipe, err = l.getPipe(); err != nil {
			return false, err
		}
	}
	defer func() {
		if h.held == 0 && h.pipe != nil {
			l.pipes = append(l.pipes, h.pipe)
			h.pipe = nil
		}
	}()
	for moved := 0; moved < turnBytes; {
		if h.held == 0 {
			n, err := sys.Splice(src, &h.pipe.w, bufBytes)
			if err == sys.EAGAIN {
				h.readable = false
				return false, nil
			}
			if err != nil || n == 0 {
				return err == nil, err
			}
			h.held = n
		}
		n, err := sys.Splice(&h.pipe.r, dst, h.held)
		if err == sys.EAGAIN {
			h.full = true
			return false, nil
		}
		if err != nil {
			return false, err
		}
		h.held -= n
		moved += n
	}
	l.requeue(h)
	return false, nil
}

func (l *loop) getPipe() (*pipe, error) {
	if n := len(l.pipes); n > 0 {
		p := l.pipes[n-1]
		l.pipes = l.pipes[:n-1]
		return p, nil
	}
	p := new(pipe)
	_, err := sys.Pipe(&p.r, &p.w, bufBytes)
	return p, err
}

// copy: a read that does not fill the buffer emptied the source, unless its end
// was announced and is still to be read.
func (l *loop) copy(h *half) (eof bool, err error) {
	src, dst := &h.f.fd[h.from], &h.f.fd[1-h.from]
	for moved := 0; moved < turnBytes; {
		if len(h.rest) > 0 {
			n, err := sys.Send(dst, h.rest)
			if err == sys.EAGAIN {
				h.full = true
				return false, nil
			}
			if err != nil {
				return false, err
			}
			if h.rest = h.rest[n:]; len(h.rest) > 0 {
				continue
			}
			h.rest = nil
		}
		n, err := sys.Read(src, l.buf)
		if err == sys.EAGAIN {
			h.readable = false
			return false, nil
		}
		if err != nil || n == 0 {
			return err == nil, err
		}
		moved += n
		sent, err := sys.Send(dst, l.buf[:n])
		if err != nil && err != sys.EAGAIN {
			return false, err
		}
		if sent < n {
			h.rest = append([]byte(nil), l.buf[sent:n]...)
			continue
		}
		if n < len(l.buf) && !h.shut {
			h.readable = false
			return false, nil
		}
	}
	l.requeue(h)
	return false, nil
}
