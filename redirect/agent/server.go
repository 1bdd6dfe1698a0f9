package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/dataplane/zds"
)

// ErrNoProxy is the error of an enrolment when no proxy is there to serve it.
var ErrNoProxy = errors.New("no proxy is connected; start one (sluice run), then try again")

// maxLinks bounds the proxies that may be connected at once; there are two while
// one takes over from the other.
const maxLinks = 16

// acceptPause is how long an accept that failed is left alone.
const acceptPause = 200 * time.Millisecond

// maxOrders bounds what waits for one proxy.
const maxOrders = 100

// served is one pod as a proxy is told of it.
type served struct {
	uid  string
	info zds.Info
	ns   *sys.FD // nil: the proxy is asked to keep the pod if it has it
}

// server is the agent's half of the hand-off protocol: it tells every proxy that
// connects which pods exist, and the newest one of each new pod.
type server struct {
	// Fixed.
	cfg   Config
	log   *slog.Logger
	l     *zds.Listener
	pods  func() []served    // copies what exists; the caller owns the descriptors
	news  func()             // called when another proxy may be the newest
	count func(func(*Stats)) // changes the agent's counters

	wg sync.WaitGroup // one for each link, and what it started

	// Shared. mu guards what follows and is never held across a send.
	mu     sync.Mutex
	links  []*link       // in the order in which they were accepted
	change chan struct{} // closed and made anew when newestLocked may have changed
}

// accept serves proxies until ctx ends.
func (s *server) accept(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { s.l.Close() })
	defer stop()
	defer s.wg.Wait()
	for {
		c, err := s.l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				c.Close()
			}
			return nil
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("accept proxies: %w", err)
			}
			s.count(func(n *Stats) { n.AcceptErrors++ })
			s.log.Error("accept proxies", "error", err) // no descriptors, most likely
			pause(ctx, acceptPause)
			continue
		}
		if err := s.admit(ctx, c); err != nil {
			s.count(func(n *Stats) { n.LinksRefused++ })
			s.log.Warn("proxy refused", "error", err)
			c.Close()
		}
		pause(ctx, s.cfg.AcceptEvery)
	}
}

// admit starts to serve c unless that may not be. On error c is still the
// caller's.
func (s *server) admit(ctx context.Context, c *zds.Conn) error {
	peer, err := c.Peer()
	if err != nil {
		return fmt.Errorf("who is it: %w", err)
	}
	if peer.UID != 0 && int(peer.UID) != os.Geteuid() {
		return fmt.Errorf("process %d runs as user %d; only root is given namespaces", peer.PID, peer.UID)
	}
	s.mu.Lock()
	full := len(s.links) >= maxLinks
	s.mu.Unlock()
	if full {
		return fmt.Errorf("process %d: %d proxies are connected, which is the limit", peer.PID, maxLinks)
	}
	l := &link{
		s: s, c: c, pid: peer.PID, log: s.log.With("proxy", peer.PID),
		orders: make(chan *order, maxOrders), acked: map[string]bool{},
	}
	s.wg.Go(func() { l.serve(ctx) })
	return nil
}

// join puts l into the list: from here on it gets what is sent to all.
func (s *server) join(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links = append(s.links, l)
}

// synced makes l one that new pods may be given to.
func (s *server) synced(l *link) {
	s.mu.Lock()
	l.synced = true
	newest := s.newestLocked() == l
	s.changedLocked()
	s.mu.Unlock()
	s.count(func(n *Stats) { n.Synced++ })
	l.log.Info("proxy has its snapshot", "modes", l.hello.Modes, "newest", newest)
	s.news()
}

// leave takes l out of the list and fails what is still asked of it.
func (s *server) leave(l *link) {
	s.mu.Lock()
	for i, other := range s.links {
		if other == l {
			s.links = append(s.links[:i:i], s.links[i+1:]...)
			break
		}
	}
	l.gone = true
	s.changedLocked()
	s.mu.Unlock()
	for {
		select {
		case o := <-l.orders:
			o.finish(errors.New("proxy went away before it was asked"))
		default:
			s.news()
			return
		}
	}
}

func (s *server) changedLocked() {
	close(s.change)
	s.change = make(chan struct{})
}

// newestLocked is the proxy that new pods are given to: of those that have
// acknowledged their snapshot, the one that connected last. One that says nothing
// must not take pods away from one that works.
func (s *server) newestLocked() *link {
	for i := len(s.links) - 1; i >= 0; i-- {
		if s.links[i].synced {
			return s.links[i]
		}
	}
	return nil
}

// newest waits at most for limit until there is a proxy, and returns its hello.
func (s *server) newest(ctx context.Context, limit time.Duration) (zds.Hello, error) {
	late := time.NewTimer(limit)
	defer late.Stop()
	for {
		s.mu.Lock()
		l, change := s.newestLocked(), s.change
		s.mu.Unlock()
		if l != nil {
			return l.hello, nil
		}
		select {
		case <-change:
		case <-late.C:
			return zds.Hello{}, ErrNoProxy
		case <-ctx.Done():
			return zds.Hello{}, fmt.Errorf("%w (%w)", ErrNoProxy, ctx.Err())
		}
	}
}

// any reports whether there is a proxy to give pods to.
func (s *server) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newestLocked() != nil
}

// acked reports whether the newest proxy has acknowledged the pod.
func (s *server) acked(uid string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.newestLocked()
	return l != nil && l.acked[uid]
}

// add gives a pod to the newest proxy and waits until it listens there.
func (s *server) add(ctx context.Context, uid string, info zds.Info, ns *netns.Handle) error {
	fd, err := ns.FD().Dup() // ns may be closed while the order waits
	if err != nil {
		return fmt.Errorf("second descriptor for %v: %w", ns.ID(), err)
	}
	o := &order{ctx: ctx, req: zds.Request{Kind: zds.Add, UID: uid, Info: &info}, ns: fd, done: make(chan error, 1)}
	s.mu.Lock()
	l := s.newestLocked()
	s.mu.Unlock()
	if l == nil {
		fd.Close()
		return ErrNoProxy
	}
	l.put(o)
	return o.wait()
}

// del tells every proxy that a pod is gone. What a proxy that goes away at that
// moment did is not known; the others have answered.
func (s *server) del(ctx context.Context, uid string) error {
	s.mu.Lock()
	links := append([]*link(nil), s.links...)
	s.mu.Unlock()
	var orders []*order
	for _, l := range links {
		o := &order{ctx: ctx, req: zds.Request{Kind: zds.Del, UID: uid}, done: make(chan error, 1)}
		l.put(o)
		orders = append(orders, o)
	}
	var faults []error
	for i, o := range orders {
		if err := o.wait(); err != nil {
			faults = append(faults, fmt.Errorf("proxy %d: %w", links[i].pid, err))
		}
	}
	return errors.Join(faults...)
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
