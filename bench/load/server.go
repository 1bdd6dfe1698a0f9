package load

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
)

// stopGrace is how long a server's engine gets to close its connections.
const stopGrace = 5 * time.Second

// Server serves spec on its addresses until ctx ends, and tells emit when it
// listens. Bulk downwards is a loop of our own: gnet does not say when a
// connection can take more, so a sender on it would have to buffer or to spin.
func Server(ctx context.Context, spec Spec, emit func(Event)) (*Result, error) {
	spec, err := spec.check()
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	clock := StartClock()
	ready := func() { emit(Event{Event: EventReady, At: clock.Now()}) }
	var res *Result
	if spec.Kind == Bulk && spec.Down {
		res, err = serveSource(ctx, spec, ready)
	} else {
		res, err = serveGnet(ctx, spec, ready)
	}
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	emit(Event{Event: EventResult, At: clock.Now(), Result: res})
	return res, nil
}

func serveGnet(ctx context.Context, spec Spec, ready func()) (*Result, error) {
	s := &server{spec: spec, up: NewPattern(spec.Seed, true), down: NewPattern(spec.Seed, false), ready: ready}
	addrs := make([]string, len(spec.To))
	for i, a := range spec.To {
		addrs[i] = "tcp://" + a.String()
	}
	stopped := make(chan struct{})
	defer close(stopped)
	go s.stopWith(ctx, stopped)
	err := gnet.Rotate(s, addrs,
		gnet.WithNumEventLoop(spec.Threads),
		gnet.WithLockOSThread(true),
		gnet.WithReuseAddr(true),
		gnet.WithReusePort(true), // each loop accepts for itself
		gnet.WithTCPNoDelay(gnet.TCPNoDelay),
		gnet.WithReadBufferCap(windowBytes),
		gnet.WithEdgeTriggeredIO(false),
		gnet.WithLogLevel(logging.FatalLevel),
		gnet.WithLogger(quiet{}))
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("listen on %v: %w", spec.To, err)
	}
	return &s.res, nil
}

// A server is the gnet handler of all kinds but bulk downwards.
type server struct {
	gnet.BuiltinEventEngine

	spec     Spec
	up, down *Pattern
	ready    func()

	// Shared. mu guards what follows.
	mu       sync.Mutex
	engine   gnet.Engine
	booted   bool
	stopping bool
	ended    int64 // connections
	res      Result
}

// A flow is what the server knows of one connection. Its loop owns it.
type flow struct {
	in, out int64
	sample  sampler
	bad     bool
	closing bool // we closed it
}

func (s *server) stopWith(ctx context.Context, stopped <-chan struct{}) {
	select {
	case <-stopped:
		return
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.stopping = true
	booted, engine := s.booted, s.engine
	s.mu.Unlock()
	if booted {
		s.drain(stopped)
		grace, cancel := context.WithTimeout(context.Background(), stopGrace)
		defer cancel()
		_ = engine.Stop(grace) // Rotate returns in any case; what it reports is what counts
	}
}

// drain waits until the connections have ended, which the client's side did
// before it ended: what lies in buffers is still counted.
func (s *server) drain(stopped <-chan struct{}) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		s.mu.Lock()
		left := s.res.Opened - s.ended
		s.mu.Unlock()
		if left == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-stopped:
			return
		}
	}
}

// OnBoot is told that the listeners stand.
func (s *server) OnBoot(e gnet.Engine) gnet.Action {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.engine, s.booted = e, true
	if s.stopping {
		return gnet.Shutdown
	}
	s.ready()
	return gnet.None
}

// OnOpen is told of a new connection.
func (s *server) OnOpen(c gnet.Conn) ([]byte, gnet.Action) {
	c.SetContext(&flow{sample: sampler{every: s.spec.Sample}})
	s.mu.Lock()
	s.res.Opened++
	s.mu.Unlock()
	return nil, gnet.None
}

// OnTraffic takes the bytes that have come.
func (s *server) OnTraffic(c gnet.Conn) gnet.Action {
	f := c.Context().(*flow)
	b, err := c.Next(-1)
	if err != nil {
		s.fail("read", err.Error())
		return gnet.Close
	}
	if !s.up.Fits(f.in, b, f.sample.full()) {
		f.bad = true
		s.fail("read", "bytes differ from the pattern")
		return gnet.Close
	}
	before := f.in
	f.in += int64(len(b))
	s.count(len(b), 0)
	if s.spec.Kind == Bulk {
		return gnet.None
	}
	whole := f.in/int64(s.spec.Request) - before/int64(s.spec.Request)
	for range whole {
		n, err := c.Write(s.down.Window(f.out, s.spec.Reply))
		if err != nil {
			s.fail("write", err.Error())
			return gnet.Close
		}
		f.out += int64(n)
		s.count(0, n)
	}
	if whole > 0 && s.spec.Kind == Churn && s.spec.Close == ServerFIN {
		if n := c.OutboundBuffered(); n > 0 {
			s.fail("close", "the reply did not fit the socket")
		}
		f.closing = true
		return gnet.Close
	}
	return gnet.None
}

// OnClose is told how a connection ended.
func (s *server) OnClose(c gnet.Conn, err error) gnet.Action {
	s.mu.Lock()
	s.ended++
	s.mu.Unlock()
	f, ok := c.Context().(*flow)
	if !ok || f.bad || f.closing {
		return gnet.None
	}
	if err != nil && isReset(err) {
		s.mu.Lock()
		known := s.stopping || s.spec.Close == ClientReset
		s.mu.Unlock()
		if !known {
			s.fail("connection", "reset by the client's side")
		}
		return gnet.None
	}
	if s.spec.Kind != Bulk && f.in%int64(s.spec.Request) != 0 {
		s.fail("connection", "ended in the middle of a request")
	}
	return gnet.None
}

func (s *server) count(received, sent int) {
	s.mu.Lock()
	s.res.Received += int64(received)
	s.res.Sent += int64(sent)
	s.mu.Unlock()
}

func (s *server) fail(step, cause string) {
	s.mu.Lock()
	s.res.fail(step, cause)
	s.mu.Unlock()
}

// quiet drops what gnet logs: each failure reaches us as a value, too.
type quiet struct{}

func (quiet) Debugf(string, ...any) {}
func (quiet) Infof(string, ...any)  {}
func (quiet) Warnf(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(string, ...any) {}
