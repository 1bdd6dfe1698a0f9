// Package node builds everything, starts it, drains it and stops it. It is
// where everything meets, and holds no mechanism of its own.
//
// Data enters and leaves in the pods' namespaces; requests to serve a pod come
// by dataplane/pods. Owns: the loops and their goroutines, and the pods.
// Threads: Run on one goroutine; the other methods from anywhere but a loop.
package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/admin"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/logs"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/pods"
	"github.com/sluice-mesh/sluice/dataplane/route"
	"github.com/sluice-mesh/sluice/dataplane/session"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// A Node is the proxy of one machine.
type Node struct {
	cfg   Config
	log   *slog.Logger
	env   *session.Env
	loops []*loop.Loop
	pods  *pods.Manager
	admin *admin.Server
	quit  chan struct{} // closed by Quit

	faults faults
	mesh   *tunnels

	quitOnce sync.Once
	nextHome atomic.Uint32
	stopping atomic.Bool

	mu   sync.Mutex
	open map[string]*session.Pod // by uid; those that are up or draining
}

// New makes a node that serves nothing yet. Its loops live in the caller's
// namespace, and so do the ports for people and probes.
func New(cfg Config) (_ *Node, err error) {
	if cfg, err = cfg.check(runtime.NumCPU()); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	met, err := newTunnels(cfg.Mesh, scoped(cfg.Log, "mesh"))
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	if cfg.Session.Route == nil {
		cfg.Session.Route = route.Decide
		if met != nil {
			cfg.Session.Route = met.route
			cfg.Session.Tunnels = &met.Tunnels
		}
	}
	if cfg.NoSource {
		cfg.Session.Route = withoutSource(cfg.Session.Route)
	}
	if !cfg.HostCongestion {
		if cfg.Session.Congestion, err = sys.UnpacedCongestion(); err != nil {
			cfg.Log.Warn("no congestion control without pacing; the host's is used within pods", "error", err)
		}
	}
	n := &Node{
		cfg: cfg, mesh: met, log: scoped(cfg.Log, "node"), open: map[string]*session.Pod{},
		quit: make(chan struct{}), faults: make(faults, faultsKept),
	}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	if n.pods, err = pods.New(cfg.Pods, n, scoped(cfg.Log, "pods")); err != nil {
		return nil, err
	}
	for i := range cfg.Loops {
		l, err := loop.New(i, loop.Config{
			Pipes: cfg.Pipes, Memory: blockMemory(), PanicEnds: sys.Checked && !cfg.ContainFaults, Log: n.faults,
		})
		if err != nil {
			return nil, fmt.Errorf("loop %d: %w", i, err)
		}
		n.loops = append(n.loops, l)
	}
	n.env = session.NewEnv(cfg.Session, n.loops)
	if n.admin, err = admin.Listen(cfg.Admin, n.view(), scoped(cfg.Log, "admin")); err != nil {
		return nil, err
	}
	return n, nil
}

// withoutSource routes like decide and leaves source addresses to the kernel.
func withoutSource(decide func(flow.Path, flow.Tuple, flow.Addrs) flow.Verdict) func(flow.Path, flow.Tuple, flow.Addrs) flow.Verdict {
	return func(path flow.Path, t flow.Tuple, own flow.Addrs) flow.Verdict {
		v := decide(path, t, own)
		v.Source = netip.Addr{}
		return v
	}
}

// scoped is a logger for one module.
func scoped(log *slog.Logger, scope string) *slog.Logger { return log.With(logs.KeyScope, scope) }

// close gives back what New has made when it could not make all.
func (n *Node) close() {
	n.mesh.close()
	for _, l := range n.loops {
		l.Stop()
		_ = l.Run() // for no longer than it takes to close what it owns
	}
}

// Run serves until ctx ends, Quit is called, or a part fails. Every goroutine
// that it started has ended when it returns.
func (n *Node) Run(ctx context.Context) error {
	// Garbage collection and handshakes never take the P that a loop needs to
	// wake.
	runtime.GOMAXPROCS(n.cfg.Loops + max(1, n.cfg.Loops/4))
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	last, end := context.WithCancel(context.Background())
	defer end()
	var loops, rest sync.WaitGroup
	for _, l := range n.loops {
		loops.Go(func() {
			if err := l.Run(); err != nil {
				stop(err)
			}
		})
	}
	n.mesh.run(ctx, &rest)
	rest.Go(func() { n.admin.Serve(ctx, last) })
	rest.Go(func() { n.faults.write(last, n.log) })
	if n.cfg.Session.Log {
		rest.Go(func() { n.cfg.Flows.Drain(last, n.rings()) })
	}
	rest.Go(func() { n.awaitQuit(ctx, stop) })
	context.AfterFunc(ctx, n.Stopping) // 1. not ready
	err := n.pods.Run(ctx)             // 2. listeners close, open flows run to the drain deadline
	stop(nil)                          // it is the end also when it was the agent that broke the protocol
	for _, l := range n.loops {        // 3. loops close what is left
		l.Stop()
	}
	n.mesh.close()
	loops.Wait()
	end()       // 4. nobody can ask any more, and the last records are written
	rest.Wait() // 5. nothing of ours runs
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		err = cause // a loop failed
	}
	return err
}

// rings are where loops leave the records of flows.
func (n *Node) rings() []logs.Ring {
	var all []logs.Ring
	for _, r := range n.env.Rings() {
		all = append(all, r)
	}
	return all
}

// awaitQuit ends Run when Quit is called.
func (n *Node) awaitQuit(ctx context.Context, stop context.CancelCauseFunc) {
	select {
	case <-n.quit:
		n.log.Info("drain begins", "reason", "asked by the admin port")
		stop(nil)
	case <-ctx.Done():
	}
}

// Quit starts the end of Run; from anywhere.
func (n *Node) Quit() { n.quitOnce.Do(func() { close(n.quit) }) }

// Stopping notes that what is drained from now on is because the process ends.
func (n *Node) Stopping() { n.stopping.Store(true) }

// Start opens the listeners of a pod; it takes ns.
func (n *Node) Start(_ context.Context, p pods.Pod, ns *netns.Handle) (pods.Running, error) {
	home := n.loops[int(n.nextHome.Add(1)-1)%len(n.loops)]
	pod, err := session.Open(n.env, flow.Pod(p), ns, home)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	n.open[p.UID] = pod
	n.mu.Unlock()
	return &running{n, pod}, nil
}

// running is a pod that is up.
type running struct {
	node *Node
	pod  *session.Pod
}

// Drain lets the pod's flows run for limit.
func (r *running) Drain(limit time.Duration) {
	why := flow.ClosePodDrain
	if r.node.stopping.Load() {
		why = flow.CloseDrain
	}
	r.pod.Drain(limit, why)
}

// Done is closed when the last flow is gone.
func (r *running) Done() <-chan struct{} { return r.pod.Done() }
