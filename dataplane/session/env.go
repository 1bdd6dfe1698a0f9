package session

import (
	"sync/atomic"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/dial"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/gcm"
	"github.com/sluice-mesh/sluice/dataplane/hbone"
	"github.com/sluice-mesh/sluice/dataplane/identity"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/mesh"
	"github.com/sluice-mesh/sluice/dataplane/relay"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/dataplane/tlsrec"
)

// Config is what all flows of a node share.
type Config struct {
	Route    func(flow.Path, flow.Tuple, flow.Addrs) flow.Verdict
	Relay    relay.Config
	Patience time.Duration // for a connect; 0 means 10 s
	Silence  time.Duration // of the pod's own application before another source port is tried; 0 means 200 ms
	Ports    []dial.Range  // nil means the default

	IPv4Only   bool
	NoReuse    bool          // one generation of the proxy only
	NoMark     bool          // for capture rules that do not go by mark
	Keepalive  sys.Keepalive // zero Idle means none
	Congestion string        // of connections within a pod; "" means the host's

	Log bool // records are kept for whoever takes them

	Tunnels *Tunnels // nil: none, in either direction
}

// Tunnels are what pods need to talk HBONE.
type Tunnels struct {
	Identities  *identity.Manager
	TrustDomain string // of all pods of this node
	Gate        *tlsrec.Gate
	Cipher      gcm.Impl
	Mesh        *mesh.Current // says who a pod is, for telemetry

	dir  hbone.Directory
	pods atomic.Uint64 // numbers them
}

// Env is a checked Config with the loops that it is for. It is shared and never
// changes.
type Env struct {
	Config
	loops []*loop.Loop
	rings map[*loop.Loop]*Ring
}

// NewEnv is for flows that live on loops.
func NewEnv(cfg Config, loops []*loop.Loop) *Env {
	if cfg.Patience == 0 {
		cfg.Patience = 10 * time.Second
	}
	if cfg.Silence == 0 {
		cfg.Silence = 200 * time.Millisecond
	}
	e := &Env{Config: cfg, loops: loops, rings: map[*loop.Loop]*Ring{}}
	if cfg.Log {
		for _, l := range loops {
			e.rings[l] = newRing()
		}
	}
	return e
}

// Rings are where the records of ended flows wait.
func (e *Env) Rings() []*Ring {
	var all []*Ring
	for _, l := range e.loops {
		if r := e.rings[l]; r != nil {
			all = append(all, r)
		}
	}
	return all
}

// Place picks the loop for a new flow: the one with the fewest, and home when
// it is no worse. It is the one moment when a flow picks its loop.
func (e *Env) Place(home *loop.Loop) *loop.Loop {
	best, least := home, home.Flows()
	for _, l := range e.loops {
		if n := l.Flows(); n < least {
			best, least = l, n
		}
	}
	return best
}
