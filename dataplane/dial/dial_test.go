package dial_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/dial"
	"github.com/sluice-mesh/sluice/dataplane/end"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

// A caller dials, and keeps what it is told.
type caller struct {
	l     *loop.Loop
	sock  end.Socket
	d     dial.Dialing
	timer loop.Timer
	told  chan error
	fault any
}

func (c *caller) Dialed(err error) { c.told <- err }
func (c *caller) Panicked(v any)   { c.fault = v }

func newCaller(t testing.TB, l *loop.Loop) *caller {
	c := &caller{l: l, told: make(chan error, 2)}
	t.Cleanup(func() {
		onloop.Do(t, l, func() {
			c.d.Stop()
			c.sock.Close()
			if c.timer.Armed() {
				t.Error("the timer is armed after the end")
			}
		})
		if len(c.told) > 0 {
			t.Errorf("told once more: %v", <-c.told)
		}
	})
	return c
}

// start dials and returns what came at once.
func (c *caller) start(t testing.TB, to netip.AddrPort, patience, silence time.Duration) (err error) {
	t.Helper()
	onloop.Do(t, c.l, func() {
		if err = sys.Socket(c.sock.FD(), sys.FamilyOf(to.Addr())); err == nil {
			err = c.d.Start(c.l, &c.sock, to, patience, silence, &c.timer, c)
		}
	})
	return err
}

func (c *caller) result(t testing.TB) error {
	t.Helper()
	return testkit.Receive(t, testkit.Wait, "the connect ends", c.told)
}

// silentServer answers no connect: its queue is full, and the kernel drops what
// comes then.
func silentServer(t *testing.T) netip.AddrPort {
	t.Helper()
	var f sys.FD
	t.Cleanup(func() { f.Close() })
	for _, err := range []error{
		sys.Socket(&f, sys.IPv4), sys.Bind(&f, netip.MustParseAddrPort("127.0.0.1:0")), sys.Listen(&f, 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	addr, err := sys.LocalAddr(&f)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return addr
}

func addrOf(l *net.TCPListener) netip.AddrPort { return l.Addr().(*net.TCPAddr).AddrPort() }

func TestDialUp(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 0, loop.Config{PanicEnds: true})
	ln := testkit.ListenTCP(t, testkit.TCPOptions{})
	defer ln.Close()
	for _, silence := range []time.Duration{0, time.Minute} {
		c := newCaller(t, l)
		if err := c.start(t, addrOf(ln), time.Minute, silence); err != nil {
			t.Fatal(err)
		}
		if err := c.result(t); err != nil {
			t.Errorf("silence %v: %v", silence, err)
		}
		onloop.Do(t, l, func() {
			if !c.sock.Writable() || c.timer.Armed() {
				t.Errorf("the socket is up: %v, the deadline armed: %v", c.sock.Writable(), c.timer.Armed())
			}
		})
		testkit.AcceptTCP(t, ln)
	}
	onloop.Do(t, l, func() {
		if n := l.Metrics.Count(metric.Dials); n != 2 {
			t.Errorf("%d dials counted; want 2", n)
		}
	})
}

func TestDialRefused(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 0, loop.Config{PanicEnds: true})
	ln := testkit.ListenTCP(t, testkit.TCPOptions{})
	ln.Close()
	c := newCaller(t, l)
	if err := c.start(t, addrOf(ln), time.Minute, 0); err != nil {
		t.Fatal(err)
	}
	if err := c.result(t); err != sys.ECONNREFUSED {
		t.Errorf("%v; want ECONNREFUSED", err)
	}
}

// What the kernel says at once is returned and not told.
func TestDialAtOnce(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 0, loop.Config{PanicEnds: true})
	c := newCaller(t, l)
	// A link-local address without an interface.
	if err := c.start(t, netip.MustParseAddrPort("[fe80::1]:80"), time.Minute, 0); err != sys.EINVAL {
		t.Errorf("%v; want EINVAL", err)
	}
}

func TestDialSilence(t *testing.T) {
	testkit.NoLeaks(t)
	to := silentServer(t)
	const short = 60 * time.Millisecond
	for _, tt := range []struct {
		name              string
		patience, silence time.Duration
		want              error
		silent            uint64
	}{
		{"no answer", short, 0, dial.ErrTimeout, 0},
		{"silence first", time.Minute, short, dial.ErrSilent, 1},
	} {
		l := onloop.Start(t, 0, loop.Config{PanicEnds: true})
		c := newCaller(t, l)
		start := time.Now()
		if err := c.start(t, to, tt.patience, tt.silence); err != nil {
			t.Fatal(err)
		}
		if err := c.result(t); err != tt.want || time.Since(start) < short {
			t.Errorf("%s: %v after %v; want %v after %v", tt.name, err, time.Since(start), tt.want, short)
		}
		onloop.Do(t, l, func() {
			if n := l.Metrics.Count(metric.DialSilent); n != tt.silent {
				t.Errorf("%s: %d silent dials counted; want %d", tt.name, n, tt.silent)
			}
		})
	}
}

// A connect that is stopped tells nothing, whatever happens to it.
func TestDialStop(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 0, loop.Config{PanicEnds: true})
	to := silentServer(t)
	c := newCaller(t, l)
	if err := c.start(t, to, 10*time.Millisecond, 0); err != nil {
		t.Fatal(err)
	}
	onloop.Do(t, l, func() { c.d.Stop(); c.d.Stop() })
	start := time.Now()
	testkit.Eventually(t, testkit.Wait, "its deadline is over", func() bool { return time.Since(start) > 30*time.Millisecond })
	onloop.Do(t, l, func() {
		c.d.Writable()
		c.d.Ended(flow.CloseServerReset, sys.ECONNRESET)
	})
}

// A frozen connect goes on with the time that it had left.
func TestDialResume(t *testing.T) {
	testkit.NoLeaks(t)
	a, b := onloop.Start(t, 0, loop.Config{PanicEnds: true}), onloop.Start(t, 0, loop.Config{PanicEnds: true})
	c := newCaller(t, a)
	if err := c.start(t, silentServer(t), time.Minute, 0); err != nil {
		t.Fatal(err)
	}
	var (
		left  time.Duration
		state []byte
		fds   []*sys.FD
	)
	onloop.Do(t, a, func() {
		left = c.d.Left()
		c.d.Stop()
		state, fds = c.sock.Freeze(nil, nil)
	})
	if left <= 50*time.Second || left > time.Minute {
		t.Errorf("%v left; want most of a minute", left)
	}
	again := newCaller(t, b)
	start := time.Now()
	onloop.Do(t, b, func() {
		if err := again.sock.Thaw(flow.NewDecoder(state), fds[0], b, &again.d, false); err != nil {
			t.Error(err)
			return
		}
		again.d.Resume(b, 50*time.Millisecond, &again.timer, again)
	})
	if err := again.result(t); err != dial.ErrTimeout || time.Since(start) < 50*time.Millisecond {
		t.Errorf("%v after %v; want ErrTimeout after what was left", err, time.Since(start))
	}
}

// A fault while a connect is served is not taken for an answer.
func TestDialPanicked(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 0, loop.Config{PanicEnds: true})
	c := newCaller(t, l)
	if err := c.start(t, silentServer(t), time.Minute, 0); err != nil {
		t.Fatal(err)
	}
	onloop.Do(t, l, func() {
		c.sock.Panicked("a fault") // as the loop does when its event was served
		if c.fault != "a fault" {
			t.Errorf("the owner was told of %v; want the fault", c.fault)
		}
	})
}
