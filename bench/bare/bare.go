// Package bare holds the relays that a proxy can at best be as good as: an epoll
// loop that does nothing but move bytes, by splice or by copying, and beside them
// the naive one, two goroutines and io.Copy for each flow.
//
// Data enters at transparent listeners in the process's own network namespace,
// and leaves to where the client wanted to go. There is no policy, no routing, no
// limit, no time-out and no counter: what a proxy spends above these is the price
// of being one.
//
// Owns: its sockets, pipes and threads until Run returns. Threads: Run starts one
// per loop.
package bare

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// An Engine moves bytes.
type Engine string

// The engines.
const (
	Splice Engine = "splice" // all bytes through a pipe
	Copy   Engine = "copy"   // read and write
	Naive  Engine = "naive"  // goroutines and io.Copy
)

// Config says what to run.
type Config struct {
	Engine Engine
	Ports  []uint16 // to listen on
	App    uint16   // of those, the one whose flows go to the pod's own application; 0 means none
	Loops  int      // threads
	Own    bool     // use the pod's own address as source instead of the client's
}

func (c Config) check() error {
	var faults []error
	switch c.Engine {
	case Splice, Copy, Naive:
	default:
		faults = append(faults, fmt.Errorf("engine is %q; want %s, %s or %s", c.Engine, Splice, Copy, Naive))
	}
	if len(c.Ports) == 0 {
		faults = append(faults, errors.New("no port to listen on"))
	}
	if c.Loops < 1 || c.Loops > 64 {
		faults = append(faults, fmt.Errorf("%d loops; want 1 to 64", c.Loops))
	}
	return errors.Join(faults...)
}

// Run relays until ctx ends, and calls ready once all ports are listened on.
func Run(ctx context.Context, c Config, ready func()) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("bare relay: %w", err)
	}
	if c.Engine == Naive {
		return runNaive(ctx, c, ready)
	}
	loops := make([]*loop, c.Loops)
	for i := range loops {
		l, err := newLoop(c, i)
		if err != nil {
			for _, l := range loops[:i] {
				l.close()
			}
			return fmt.Errorf("bare relay: %w", err)
		}
		loops[i] = l
	}
	ready()
	var wg sync.WaitGroup
	errs := make([]error, len(loops))
	for i, l := range loops {
		wg.Go(func() { errs[i] = l.run(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// listen makes a listener that takes captured connections to any address.
func listen(f *sys.FD, port uint16) error {
	if err := sys.Socket(f, sys.IPv4); err != nil {
		return err
	}
	for _, set := range []func() error{
		func() error { return sys.SetReuseAddr(f) },
		func() error { return sys.SetReusePort(f) },
		func() error { return sys.SetTransparent(f, sys.IPv4) },
		func() error { return sys.SetMark(f, sys.Mark) },
		func() error { return sys.SetNoDelay(f) },
		func() error { return sys.BindAny(f, sys.IPv4, port) },
		func() error { return sys.Listen(f, 4096) },
	} {
		if err := set(); err != nil {
			_ = f.Close() // the first error counts
			return fmt.Errorf("listen on port %d: %w", port, err)
		}
	}
	return nil
}

// target is where the client of an accepted connection wanted to go. Behind
// TPROXY that is the local address; behind REDIRECT connection tracking knows.
func target(f *sys.FD, port uint16) (netip.AddrPort, error) {
	local, err := sys.LocalAddr(f)
	if err != nil || local.Port() != port {
		return local, err
	}
	to, err := sys.OriginalDst(f, sys.IPv4)
	if err == nil && to == local {
		err = sys.ECONNREFUSED // a straight dial would loop
	}
	return to, err
}

// A chooser picks source ports towards the application: ones that clients do not
// use, of the parity that the client does not use. Left to the kernel, both
// halves of a flow would take the same port.
type chooser struct {
	next, step uint16
}

const (
	firstPort, lastPort = 10240, 32767
	portTries           = 12000
)

func newChooser(i, n int) chooser {
	return chooser{next: firstPort + uint16(2*i), step: uint16(2 * n)}
}

func (c *chooser) pick(client uint16) uint16 {
	if c.next += c.step; c.next > lastPort-1 {
		c.next = firstPort + (c.next-firstPort)%c.step
	}
	return c.next&^1 | (client&1 ^ 1)
}

// options sets what a socket to the other side needs before it is bound.
func options(f *sys.FD, app, own bool) error {
	if err := sys.SetMark(f, sys.Mark); err != nil {
		return err
	}
	if err := sys.SetNoDelay(f); err != nil {
		return err
	}
	if own {
		return nil
	}
	if err := sys.SetTransparent(f, sys.IPv4); err != nil {
		return err
	}
	if app {
		return sys.SetReuseAddr(f)
	}
	return sys.SetBindNoPort(f)
}

// dial starts a connect to to in the client's name, or in the pod's own. A socket
// keeps the port that it was bound to, so another port is another socket.
func (c *chooser) dial(f *sys.FD, client, to netip.AddrPort, app, own bool) error {
	for range portTries {
		err := c.try(f, client, to, app, own)
		if !app || own || err != sys.EADDRINUSE && err != sys.EADDRNOTAVAIL {
			return err
		}
		_ = f.Close() // the port is taken
	}
	return sys.EADDRINUSE
}

func (c *chooser) try(f *sys.FD, client, to netip.AddrPort, app, own bool) error {
	if err := sys.Socket(f, sys.IPv4); err != nil {
		return err
	}
	if err := options(f, app, own); err != nil {
		return err
	}
	if !own {
		var port uint16
		if app {
			port = c.pick(client.Port())
		}
		if err := sys.Bind(f, netip.AddrPortFrom(client.Addr(), port)); err != nil {
			return err
		}
	}
	return sys.Connect(f, to)
}
