// Package agent enrols pods: it programs capture in their network namespaces,
// hands these to the proxy, and takes both back again.
//
// Data enters as requests on the enrolment socket; a pod leaves as rules in its
// namespace (package apply) and as an Add to the newest proxy that is connected
// to the hand-off socket (package zds). What is known of a pod is in a file of its
// own before the pod is touched: the agent may end at any moment, pods and rules
// stay, and the next one goes on where it ended.
//
// Owns: both sockets, the state folder, and one descriptor for the namespace of
// each pod. Threads: one goroutine for each pod does all that is done to it, one
// after the other; one for each proxy asks it one thing at a time; lock order is
// Agent.mu before server.mu.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/dataplane/zds"
	"github.com/sluice-mesh/sluice/redirect"
	"github.com/sluice-mesh/sluice/redirect/apply"
)

// Where the agent is found unless something else is said.
const (
	DefaultEnrollSocket = "/run/sluice/enroll.sock"
	DefaultStateDir     = "/run/sluice"
)

// Config sets what an Agent may vary in.
type Config struct {
	ZDSSocket    string          // for proxies; "" means zds.DefaultSocket
	EnrollSocket string          // for the enrol commands; "" means DefaultEnrollSocket
	StateDir     string          // "" means DefaultStateDir
	Intent       redirect.Intent // what is wanted for each pod; a request may choose the mode

	HelloWait   time.Duration // for a proxy's first word; 0 means 5 s
	AskWait     time.Duration // for a proxy's answer; 0 means 5 s
	ProxyWait   time.Duration // how long an enrolment waits for a proxy to connect; 0 means 5 s
	AcceptEvery time.Duration // least time between two proxies; 0 means 200 ms
	LeaveWait   time.Duration // for a proxy that let go of a pod to close its listeners; 0 means 5 s
	Retry       time.Duration // between tries to bring a pod forward, and looks for namespaces that died; 0 means 5 s
}

// check returns c with defaults filled in, or every fault found.
func (c Config) check() (Config, error) {
	c.ZDSSocket = cmp.Or(c.ZDSSocket, zds.DefaultSocket)
	c.EnrollSocket = cmp.Or(c.EnrollSocket, DefaultEnrollSocket)
	c.StateDir = cmp.Or(c.StateDir, DefaultStateDir)
	var faults []error
	for _, d := range []struct {
		name string
		at   *time.Duration
		def  time.Duration
	}{
		{"hello wait", &c.HelloWait, 5 * time.Second},
		{"ask wait", &c.AskWait, 5 * time.Second},
		{"proxy wait", &c.ProxyWait, 5 * time.Second},
		{"accept interval", &c.AcceptEvery, 200 * time.Millisecond},
		{"leave wait", &c.LeaveWait, 5 * time.Second},
		{"retry", &c.Retry, 5 * time.Second},
	} {
		*d.at = cmp.Or(*d.at, d.def)
		if *d.at < 0 {
			faults = append(faults, fmt.Errorf("%s is %v; want a duration above 0", d.name, *d.at))
		}
	}
	if _, err := redirect.NewPlan(c.Intent); err != nil {
		faults = append(faults, fmt.Errorf("intent: %w", err))
	}
	return c, errors.Join(faults...)
}

// ErrRunning is wrapped by Run's error when another agent uses the state folder.
var ErrRunning = errors.New("another agent is running")

// Stats counts what the agent did.
type Stats struct {
	Enrolled     uint64 `json:"enrolled"`      // enrolments completed
	Unenrolled   uint64 `json:"unenrolled"`    // pods that left
	Failed       uint64 `json:"failed"`        // enrolments that were taken back
	Retried      uint64 `json:"retried"`       // steps that were tried again by themselves
	Dropped      uint64 `json:"dropped"`       // pods whose namespace died
	Refused      uint64 `json:"refused"`       // requests on the enrolment socket that were not carried out
	Links        uint64 `json:"links"`         // proxies that connected
	Synced       uint64 `json:"synced"`        // those that acknowledged their snapshot
	LinksRefused uint64 `json:"links_refused"` // those that were not served
	AcceptErrors uint64 `json:"accept_errors"` // accepts that failed, on either socket
	LinkErrors   uint64 `json:"link_errors"`   // those that were dropped
	AskTimeouts  uint64 `json:"ask_timeouts"`  // of these, for an answer that did not come
	Nacks        uint64 `json:"nacks"`         // requests that a proxy could not carry out
}

// An Agent enrols the pods of one machine.
type Agent struct {
	// Fixed after New.
	cfg   Config
	log   *slog.Logger
	store store
	state apply.StateDir
	home  sys.NamespaceID // of this process, which is never a pod

	// Set by Run before anything else runs.
	server *server
	life   context.Context // of actors; ends with Run
	wg     sync.WaitGroup  // one for each actor

	// Shared. mu guards what follows and the parts of each actor that say so; it
	// is never held across a system call that can wait.
	mu     sync.Mutex
	actors map[string]*actor          // by uid
	owners map[sys.NamespaceID]string // uid of the pod in each namespace
	stats  Stats
}

// New makes an Agent, for one Run. The namespace of the calling thread is the
// host's own. log must not be nil.
func New(cfg Config, log *slog.Logger) (*Agent, error) {
	cfg, err := cfg.check()
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	own, err := netns.Current()
	if err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	defer own.Close()
	return &Agent{
		cfg: cfg, log: log, home: own.ID(),
		store:  store(filepath.Join(cfg.StateDir, "pods")),
		state:  apply.StateDir(cfg.StateDir),
		actors: map[string]*actor{},
		owners: map[sys.NamespaceID]string{},
	}, nil
}

// Run serves until ctx ends, or a socket fails. Rules and pods stay as they are.
// Every goroutine that it started has ended when it returns.
func (a *Agent) Run(ctx context.Context) error {
	for _, dir := range []string{string(a.store), filepath.Dir(a.cfg.ZDSSocket), filepath.Dir(a.cfg.EnrollSocket)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("agent: %w", asRoot(err))
		}
	}
	lock := filepath.Join(a.cfg.StateDir, "agent.lock")
	locked, err := sys.LockFile(lock)
	if errors.Is(err, sys.EAGAIN) {
		err = ErrRunning
	}
	if err != nil {
		return fmt.Errorf("agent: lock %s: %w", lock, asRoot(err))
	}
	defer locked.Close()

	// No proxy may be told of a snapshot before every pod is known again: it would
	// drop those that are not in it. So its socket is opened after this.
	defer a.closeAll()
	if err := a.reopen(); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	proxies, err := zds.Listen(a.cfg.ZDSSocket)
	if err != nil {
		return fmt.Errorf("agent: socket for proxies: %w", err)
	}
	defer proxies.Close()
	enroll, err := sys.ListenPackets(a.cfg.EnrollSocket)
	if err != nil {
		return fmt.Errorf("agent: enrolment socket: %w", err)
	}
	defer enroll.Close()

	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	a.life = ctx
	a.server = &server{
		cfg: a.cfg, log: a.log, l: proxies,
		pods: a.snapshot, news: a.wakeAll, count: a.count, change: make(chan struct{}),
	}
	a.log.Info("agent serves", "proxies", a.cfg.ZDSSocket, "enrolment", a.cfg.EnrollSocket, "state", a.cfg.StateDir, "pods", len(a.actors))
	var parts sync.WaitGroup
	for _, p := range a.list() {
		a.wg.Go(func() { p.run(a.life, nil) })
	}
	parts.Go(func() { stop(a.server.accept(ctx)) })
	parts.Go(func() { stop(a.serveEnroll(ctx, enroll)) })
	parts.Wait()
	a.wg.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("agent: %w", err)
	}
	return nil
}

// asRoot adds to a refusal by the kernel what to do about it.
func asRoot(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; run as root", err)
	}
	return err
}

// reopen finds the pods of earlier agents again. One whose namespace died is
// dropped; one that can't be looked at just now is kept, without its descriptor.
func (a *Agent) reopen() error {
	all, err := a.store.load()
	if err != nil {
		return err
	}
	for _, r := range all {
		p := a.newActor(r)
		switch p.ns, p.rec.Place, err = r.Place.open(); {
		case errors.Is(err, errDead):
			a.stats.Dropped++
			a.log.Warn("pod dropped: its network namespace died while no agent ran", "pod", r.UID, "netns", r.Place, "phase", r.Phase)
			if err := a.store.drop(r.UID); err != nil {
				return err
			}
			continue
		case err != nil:
			p.lastErr = err.Error()
			a.log.Error("network namespace can't be opened; the proxy is asked to keep the pod", "pod", r.UID, "netns", r.Place, "error", err)
		}
		if other, twice := a.owners[r.Place.id()]; twice {
			p.setNamespace(nil)
			return fmt.Errorf("pods %s and %s are both said to be in %v; delete the file of the wrong one below %s", other, r.UID, r.Place, a.store)
		}
		a.actors[r.UID] = p
		a.owners[r.Place.id()] = r.UID
		a.log.Info("pod known", "pod", r.UID, "netns", r.Place, "mode", r.Intent.Mode, "phase", r.Phase)
	}
	return nil
}

// closeAll gives back the namespaces of pods that no goroutine serves any more.
func (a *Agent) closeAll() {
	for _, p := range a.list() {
		p.setNamespace(nil)
	}
}

func (a *Agent) list() []*actor {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := slices.Collect(maps.Values(a.actors))
	slices.SortFunc(all, func(x, y *actor) int { return cmp.Compare(x.rec.UID, y.rec.UID) })
	return all
}

// snapshot copies the pods that proxies are told of. The caller closes the
// descriptors.
func (a *Agent) snapshot() []served {
	var all []served
	for _, p := range a.list() {
		a.mu.Lock()
		one := served{uid: p.rec.UID, info: p.rec.info()}
		shown := p.rec.Phase.shown() && a.actors[p.rec.UID] == p
		var err error
		if shown && p.ns != nil {
			one.ns, err = p.ns.FD().Dup()
		}
		a.mu.Unlock()
		if err != nil {
			a.log.Error("no second descriptor; the proxy is asked to keep the pod", "pod", one.uid, "error", err)
			one.ns = nil
		}
		if shown {
			all = append(all, one)
		}
	}
	return all
}

// wakeAll has every pod look whether the newest proxy knows it.
func (a *Agent) wakeAll() {
	for _, p := range a.list() {
		select {
		case p.wake <- struct{}{}:
		default: // it is going to look anyway
		}
	}
}

// Pods lists what is known, ordered by uid.
func (a *Agent) Pods() []Status {
	var all []Status
	for _, p := range a.list() {
		a.mu.Lock()
		r := p.rec
		s := Status{
			UID: r.UID, Name: r.Name, Namespace: r.Namespace, ServiceAccount: r.ServiceAccount,
			Netns: r.Place.Path, NetnsID: r.Place.id().String(), Mode: r.Intent.Mode.String(),
			Phase: r.Phase, LastError: p.lastErr,
		}
		a.mu.Unlock()
		s.Acked = a.server.acked(s.UID)
		all = append(all, s)
	}
	return all
}

// Stats reads the counters.
func (a *Agent) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stats
}

func (a *Agent) count(add func(*Stats)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	add(&a.stats)
}
