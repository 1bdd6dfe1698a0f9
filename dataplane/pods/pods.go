// Package pods knows which pods this node serves: it adds, keeps, drains and
// removes them as the agent asks over the namespace hand-off protocol.
//
// Data enters as requests on a zds.Conn to the agent; a pod and the descriptor
// of its namespace leave to Host.Start, which opens the listeners. A pod that
// goes is drained: its listeners close, open flows run to their own end, at most
// to the drain deadline.
//
// Owns: the connection to the agent, and the namespace of each pod that could not
// be started yet. Threads: Run is one goroutine that does all the work, with one
// more that reads and one for each draining pod; every other method may be called
// from anywhere.
package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/dataplane/zds"
)

// Gate is the name under which readiness waits for the first snapshot.
const Gate = "workload proxy manager"

// A Pod is a network namespace whose traffic is served, with the workload's name
// as the control plane knows it.
type Pod struct {
	UID                             string // of the pod; not the workload's uid
	Name, Namespace, ServiceAccount string
}

func (p Pod) String() string { return p.Namespace + "/" + p.Name + " (" + p.UID + ")" }

// A Host opens and serves the listeners of a pod.
type Host interface {
	// Start takes ns, also on error. It returns when the pod's listeners accept;
	// it gives up when ctx ends, which is before the agent does.
	Start(ctx context.Context, p Pod, ns *netns.Handle) (Running, error)
	// Stopping comes once, before the process drain: every Drain from then on is
	// because the process ends.
	Stopping()
}

// Running is a pod that Start brought up.
type Running interface {
	// Drain closes the pod's listeners after their queues are accepted and lets
	// open flows end by themselves, at most for limit. It returns at once. A
	// second call can only shorten the limit.
	Drain(limit time.Duration)
	// Done is closed when the last flow of a drained pod is gone.
	Done() <-chan struct{}
}

// Config sets what a Manager may vary in.
type Config struct {
	Socket       string        // where the agent listens; "" means zds.DefaultSocket
	Modes        []string      // capture modes that this proxy serves, named in the hello
	PodDrain     time.Duration // longest life of a flow after its pod was deleted; 0 means 10 min
	ProcessDrain time.Duration // longest life of a flow after this process was told to stop; 0 means 5 s
	StartLimit   time.Duration // for one Start; 0 means 4 s, below the agent's patience of 5 s
	Retry        time.Duration // between tries to start the pods that failed; 0 means 5 s
	BackoffMin   time.Duration // first wait after a connect that failed; 0 means 20 ms
	BackoffMax   time.Duration // longest wait between connects; 0 means 15 s
}

// check returns c with defaults filled in, or every fault found.
func (c Config) check() (Config, error) {
	c.Socket = cmp.Or(c.Socket, zds.DefaultSocket)
	var faults []error
	for _, d := range []struct {
		name string
		at   *time.Duration
		def  time.Duration
	}{
		{"pod drain", &c.PodDrain, 10 * time.Minute},
		{"process drain", &c.ProcessDrain, 5 * time.Second},
		{"start limit", &c.StartLimit, 4 * time.Second},
		{"retry", &c.Retry, 5 * time.Second},
		{"least backoff", &c.BackoffMin, 20 * time.Millisecond},
		{"greatest backoff", &c.BackoffMax, 15 * time.Second},
	} {
		*d.at = cmp.Or(*d.at, d.def)
		if *d.at < 0 {
			faults = append(faults, fmt.Errorf("%s is %v; want a duration above 0", d.name, *d.at))
		}
	}
	if c.BackoffMin > c.BackoffMax {
		faults = append(faults, fmt.Errorf("least backoff %v is above the greatest, %v", c.BackoffMin, c.BackoffMax))
	}
	if _, err := (zds.Hello{Version: zds.V1, Modes: c.Modes}).Append(nil); err != nil {
		faults = append(faults, fmt.Errorf("capture modes %q: %w", c.Modes, err))
	}
	return c, errors.Join(faults...)
}

// A State is where a pod is on its way.
type State uint8

// The states of a pod.
const (
	Pending  State = iota + 1 // could not be started yet; tried again
	Up                        // its listeners accept
	Draining                  // its listeners are closed, its last flows run out
)

func (s State) String() string {
	switch s {
	case Pending:
		return "Pending"
	case Up:
		return "Up"
	case Draining:
		return "Draining"
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// Status is what is known of one pod.
type Status struct {
	Pod     Pod
	State   State
	Netns   sys.NamespaceID
	Since   time.Time // when it entered State
	LastErr string    // why it is Pending
}

// Stats counts what the manager did. Gauges come first.
type Stats struct {
	Active, Pending, Draining int

	Started, Stopped         uint64 // pods brought up; pods told to drain
	StartErrors              uint64 // starts that failed, each try counted
	Connects, ConnectErrors  uint64 // connections to the agent; dials that failed
	HelloErrors              uint64 // hellos that could not be sent
	ReadErrors, AnswerErrors uint64 // packets that could not be read; answers that could not be sent
	Snapshots                uint64
	ProtocolErrors           uint64 // 0 or 1: the first ends Run
	Refused                  uint64 // adds whose descriptor is no pod's network namespace
	Abandoned                uint64 // pods that had not ended when the process drain was over
}

// A ProtocolError is a request that breaks the protocol: nobody knows what the
// agent and the proxy agree on any more. The process ends with status 1.
type ProtocolError struct{ Err error }

func (e *ProtocolError) Error() string { return "agent broke the hand-off protocol: " + e.Err.Error() }

// Unwrap is the fault itself.
func (e *ProtocolError) Unwrap() error { return e.Err }

// A Manager keeps the pods of this node.
type Manager struct {
	// Fixed after New.
	cfg  Config
	host Host
	log  *slog.Logger
	home sys.NamespaceID // of this process, which is never a pod

	// Owned by Run.
	named     map[string]struct{} // uids that the agent named since it was connected, until snapshot_sent
	complete  bool                // snapshot_sent has come on this connection
	abandoned chan struct{}       // closed when the process drain is over
	ends      sync.WaitGroup      // one for each draining pod

	// Shared. mu guards what follows and is never held across a call into host.
	mu       sync.Mutex
	ready    bool
	running  map[string]*pod // by uid
	pending  map[string]*pod // by uid; each owns its ns
	draining map[*pod]struct{}
	stats    Stats
}

// pod is one pod in one of the three places of a Manager.
type pod struct {
	Pod
	id      sys.NamespaceID
	since   time.Time
	ns      *netns.Handle // while pending
	run     Running       // while up and draining
	lastErr string
}

// New makes a Manager that starts pods on host, for one Run. log must not be nil.
// The namespace of the calling thread is this process's own.
func New(cfg Config, host Host, log *slog.Logger) (*Manager, error) {
	cfg, err := cfg.check()
	if err != nil {
		return nil, fmt.Errorf("workload manager: %w", err)
	}
	home, err := netns.Current()
	if err != nil {
		return nil, fmt.Errorf("workload manager: %w", err)
	}
	defer home.Close()
	return &Manager{
		cfg: cfg, host: host, log: log, home: home.ID(),
		abandoned: make(chan struct{}),
		running:   map[string]*pod{},
		pending:   map[string]*pod{},
		draining:  map[*pod]struct{}{},
	}, nil
}

// Ready reports whether the agent is connected, has sent its snapshot, and every
// pod that it named is up. See Gate.
func (m *Manager) Ready() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ready
}

// Stats reads the counters.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.stats
	s.Active, s.Pending, s.Draining = len(m.running), len(m.pending), len(m.draining)
	return s
}

// Snapshot lists the pods, ordered by uid. A uid may be there twice: a draining
// pod beside the one that took its place.
func (m *Manager) Snapshot() []Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Status, 0, len(m.running)+len(m.pending)+len(m.draining))
	add := func(p *pod, s State) {
		all = append(all, Status{Pod: p.Pod, State: s, Netns: p.id, Since: p.since, LastErr: p.lastErr})
	}
	for _, p := range m.pending {
		add(p, Pending)
	}
	for _, p := range m.running {
		add(p, Up)
	}
	for p := range m.draining {
		add(p, Draining)
	}
	slices.SortFunc(all, func(a, b Status) int {
		return cmp.Or(cmp.Compare(a.Pod.UID, b.Pod.UID), cmp.Compare(a.State, b.State), a.Since.Compare(b.Since))
	})
	return all
}
