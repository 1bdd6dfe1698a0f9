package tlsrec

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
)

// Limits bound what handshakes cost. The zero value is usable.
type Limits struct {
	// Computing is how many handshakes compute at the same time, of both
	// roles; 0 means a quarter of GOMAXPROCS, at least 1.
	Computing int
	// PerPod, PerPeer and Total bound the open handshakes that others began;
	// 0 means 256, 64 and 4096.
	PerPod, PerPeer, Total int
	// PanicEnds lets a panic in a handshake end the process, and not only the
	// handshake.
	PanicEnds bool
}

// check returns l with defaults filled in, or every fault found.
func (l Limits) check() (Limits, error) {
	l.Computing = cmp.Or(l.Computing, max(1, runtime.GOMAXPROCS(0)/4))
	l.PerPod = cmp.Or(l.PerPod, 256)
	l.PerPeer = cmp.Or(l.PerPeer, 64)
	l.Total = cmp.Or(l.Total, 4096)
	var faults []error
	for _, f := range []struct {
		name string
		n    int
	}{{"computing", l.Computing}, {"per pod", l.PerPod}, {"per peer", l.PerPeer}, {"total", l.Total}} {
		if f.n < 1 {
			faults = append(faults, fmt.Errorf("handshakes: %s is %d; want at least 1", f.name, f.n))
		}
	}
	return l, errors.Join(faults...)
}

// Why a handshake ended without the peer's doing.
var (
	// ErrEvicted says that it was the oldest of too many open ones.
	ErrEvicted = errors.New("tls handshake: too many are open, and this was the oldest")
	// ErrAborted says that Abort was called.
	ErrAborted = errors.New("tls handshake: aborted")
	// ErrGateClosed says that the program ends.
	ErrGateClosed = errors.New("tls handshake: no more handshakes here")
	// ErrPanicked is wrapped when a handshake panicked. Its stack follows in the
	// error's text.
	ErrPanicked = errors.New("panic")

	errTaken = errors.New("tls handshake: result was taken")
)

// An Origin says who is counted for a handshake that somebody else began.
type Origin struct {
	Pod  uint64     // any number that is the pod's
	Peer netip.Addr // where the connection comes from
}

// A Gate begins handshakes and bounds them: how many compute at the same time, and
// how many that others began are open. When there are too many of a pod, of a
// peer or in all, the oldest of these ends with ErrEvicted.
//
// One Gate serves all loops. Its lock is held for a few steps in memory, and
// never while anything else is called.
type Gate struct {
	limits  Limits
	slots   chan struct{} // one in it per handshake that computes
	running sync.WaitGroup

	mu      sync.Mutex // guards what follows, and the links of handshakes
	closed  bool
	clients queue
	servers queue
	pods    map[uint64]*queue
	peers   map[netip.Addr]*queue
	evicted uint64
}

// NewGate makes a Gate.
func NewGate(l Limits) (*Gate, error) {
	l, err := l.check()
	if err != nil {
		return nil, err
	}
	return &Gate{
		limits:  l,
		slots:   make(chan struct{}, l.Computing),
		clients: queue{list: listRole}, servers: queue{list: listRole},
		pods: map[uint64]*queue{}, peers: map[netip.Addr]*queue{},
	}, nil
}

// Client begins a handshake as the client. u is told when there is something to
// send, which is soon. cfg is not changed, and must not be while it goes on.
func (g *Gate) Client(cfg *tls.Config, u User) *Handshake {
	h := newHandshake(g, Client, cfg, u)
	g.mu.Lock()
	closed := g.closed
	if !closed {
		g.clients.push(h)
	}
	g.mu.Unlock()
	if closed {
		h.end(nil, ErrGateClosed)
	} else {
		h.start()
	}
	return h
}

// Server begins a handshake as the server, of a connection from o. Until a whole
// ClientHello has been fed it costs a few hundred bytes.
func (g *Gate) Server(cfg *tls.Config, o Origin, u User) *Handshake {
	h := newHandshake(g, Server, cfg, u)
	h.origin = o
	if victims, err := g.admit(h); err != nil {
		h.end(nil, err)
	} else {
		for _, v := range victims {
			if v != nil {
				v.end(nil, ErrEvicted)
			}
		}
	}
	return h
}

// admit counts h and returns who has to go for it.
func (g *Gate) admit(h *Handshake) (victims [3]*Handshake, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return victims, ErrGateClosed
	}
	g.servers.push(h)
	pod := ensure(g.pods, h.origin.Pod, listPod)
	peer := ensure(g.peers, h.origin.Peer, listPeer)
	pod.push(h)
	peer.push(h)
	for i, full := range [...]struct {
		q     *queue
		limit int
	}{{peer, g.limits.PerPeer}, {pod, g.limits.PerPod}, {&g.servers, g.limits.Total}} {
		if full.q.n > full.limit {
			victims[i] = full.q.head
			g.dropLocked(full.q.head)
			g.evicted++
		}
	}
	return victims, nil
}

// ensure returns the queue of key in m, made if there is none.
func ensure[K comparable](m map[K]*queue, key K, list int) *queue {
	q := m[key]
	if q == nil {
		q = &queue{list: list}
		m[key] = q
	}
	return q
}

// drop no longer counts h.
func (g *Gate) drop(h *Handshake) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dropLocked(h)
}

func (g *Gate) dropLocked(h *Handshake) {
	if !h.listed {
		return
	}
	if h.role == Client {
		g.clients.remove(h)
		return
	}
	g.servers.remove(h)
	o := h.origin
	if q := g.pods[o.Pod]; q.remove(h) == 0 {
		delete(g.pods, o.Pod)
	}
	if q := g.peers[o.Peer]; q.remove(h) == 0 {
		delete(g.peers, o.Peer)
	}
}

// run starts fn on a goroutine that Close waits for, unless g is closed.
func (g *Gate) run(fn func()) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.running.Go(fn)
	}
	return !g.closed
}

// compute waits for the right to compute, and reports whether it was got before
// ctx ended.
func (g *Gate) compute(ctx context.Context) bool {
	select {
	case g.slots <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// rest gives the right to compute back.
func (g *Gate) rest() { <-g.slots }

// GateStats are what a Gate counts.
type GateStats struct {
	Clients, Servers int // open handshakes
	Computing        int // of which compute
	Evicted          uint64
}

// Stats returns what is open now, and what was evicted ever.
func (g *Gate) Stats() GateStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	return GateStats{Clients: g.clients.n, Servers: g.servers.n, Computing: len(g.slots), Evicted: g.evicted}
}

// Close ends all handshakes with ErrGateClosed, and returns when no goroutine of
// theirs is left. Those that have ended before keep their results.
func (g *Gate) Close() {
	g.mu.Lock()
	g.closed = true
	var open []*Handshake
	for _, q := range []*queue{&g.clients, &g.servers} {
		for h := q.head; h != nil; h = h.links[listRole].next {
			open = append(open, h)
		}
	}
	g.mu.Unlock()
	for _, h := range open {
		h.end(nil, ErrGateClosed)
	}
	g.running.Wait()
}
