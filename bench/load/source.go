package load

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// serveSource accepts connections and sends as much as each takes.
func serveSource(ctx context.Context, spec Spec, ready func()) (*Result, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := &source{down: NewPattern(spec.Seed, false), buf: make([]byte, windowBytes), conns: make(map[uint64]*stream)}
	defer s.close()
	if err := s.poll.Open(); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	for i, a := range spec.To {
		if err := s.listen(uint64(i), a); err != nil {
			return nil, fmt.Errorf("listen on %v: %w", a, err)
		}
	}
	ready()
	return &s.res, s.run(ctx)
}

// listenData marks a listener's events; a stream's have its number.
const listenData = 1 << 63

type source struct {
	down      *Pattern
	buf       []byte
	poll      sys.Poller
	listeners []*sys.FD
	conns     map[uint64]*stream
	active    []*stream
	last      uint64
	res       Result
}

type stream struct {
	id  uint64
	fd  sys.FD
	out int64
}

func (s *source) close() {
	for _, l := range s.listeners {
		_ = l.Close()
	}
	for _, c := range s.conns {
		_ = c.fd.Close()
	}
	_ = s.poll.Close()
}

func (s *source) listen(i uint64, at netip.AddrPort) error {
	l := new(sys.FD)
	s.listeners = append(s.listeners, l)
	if err := sys.Socket(l, sys.FamilyOf(at.Addr())); err != nil {
		return err
	}
	if err := sys.SetReuseAddr(l); err != nil {
		return err
	}
	if err := sys.Bind(l, at); err != nil {
		return err
	}
	if err := sys.Listen(l, 4096); err != nil {
		return err
	}
	return s.poll.Add(l, sys.Readable, listenData|i)
}

func (s *source) run(ctx context.Context) error {
	events := make([]sys.Event, 64)
	for ctx.Err() == nil {
		wait := heartbeat
		if len(s.active) > 0 {
			wait = 0
		}
		n, err := s.poll.Wait(events, wait)
		if err != nil {
			return fmt.Errorf("epoll wait: %w", err)
		}
		for i := range events[:n] {
			d, bits := events[i].Data(), events[i].Bits()
			if d&listenData != 0 {
				s.accept(s.listeners[d&^listenData])
				continue
			}
			c := s.conns[d]
			switch {
			case c == nil:
			case bits&(sys.PeerShut|sys.HungUp|sys.Failed) != 0:
				s.end(c) // the client has seen enough
			default:
				s.send(c)
			}
		}
		turn := s.active
		s.active = nil
		for _, c := range turn {
			s.send(c)
		}
	}
	return nil
}

func (s *source) accept(l *sys.FD) {
	for {
		c := &stream{id: s.last}
		if _, err := sys.Accept(l, &c.fd); err != nil {
			if err != sys.EAGAIN {
				s.res.fail("accept", err.Error())
			}
			return
		}
		s.last++
		s.conns[c.id] = c
		s.res.Opened++
		if err := s.poll.Add(&c.fd, sys.Stream, c.id); err != nil {
			s.res.fail("epoll", err.Error())
			s.end(c)
		}
	}
}

func (s *source) end(c *stream) {
	sys.Reset(&c.fd)
	delete(s.conns, c.id)
}

func (s *source) send(c *stream) {
	if !c.fd.Valid() {
		return
	}
	for moved := 0; moved < turnBytes; {
		n, err := sys.Send(&c.fd, s.down.Window(c.out, windowBytes))
		if err == sys.EAGAIN {
			return
		}
		if err != nil {
			if !isReset(err) {
				s.res.fail("send", err.Error())
			}
			s.end(c)
			return
		}
		c.out, moved = c.out+int64(n), moved+n
		s.res.Sent += int64(n)
	}
	s.active = append(s.active, c)
}
