package identity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// An Issuer issues certificates. Issue may block until ctx ends; it is called for
// one identity at a time, and for several at once.
type Issuer interface {
	Issue(ctx context.Context, id ID) (*Certificate, error)
}

// Errors of a Source that has no certificate.
var (
	// ErrPending says that the first one is on its way: Wait for it.
	ErrPending = errors.New("certificate is not there yet")
	// ErrReleased says that nobody needs the identity any more.
	ErrReleased = errors.New("identity is not needed any more")
)

// Config sets up a Manager.
type Config struct {
	Issuer Issuer
	Log    *slog.Logger     // nil: none
	Now    func() time.Time // the node's clock; nil: time.Now
	AtOnce int              // calls of Issue at the same time; 0: 8
}

// A Manager keeps a good certificate for each identity that somebody acquired, and
// for no other: it renews each at half of its life, and asks again, ever less often,
// when that fails.
type Manager struct {
	// Fixed.
	issuer Issuer
	log    *slog.Logger
	now    func() time.Time
	slots  chan struct{} // one in it for each call of Issue
	ctx    context.Context
	stop   context.CancelFunc
	wg     sync.WaitGroup

	// Guarded by mu, which is never held while anything is called.
	mu      sync.Mutex
	closed  bool
	entries map[ID]*entry
	stats   Stats
}

// Stats is what a Manager counts.
type Stats struct {
	Issued   uint64 // certificates that the issuer gave
	Failures uint64 // times that it gave none
	Lapsed   uint64 // identities that lost their last good certificate to a failure
	Sources  int    // identities that are kept
	Waiting  int    // who wait for a first certificate
}

// NewManager makes a Manager; Close ends it.
func NewManager(cfg Config) *Manager {
	m := &Manager{issuer: cfg.Issuer, log: cfg.Log, now: cfg.Now, entries: map[ID]*entry{}}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	if m.now == nil {
		m.now = time.Now
	}
	if cfg.AtOnce == 0 {
		cfg.AtOnce = 8
	}
	m.slots = make(chan struct{}, cfg.AtOnce)
	m.ctx, m.stop = context.WithCancel(context.Background())
	return m
}

// Acquire begins to keep a certificate for id, unless that is done already. The
// caller Releases what it gets.
func (m *Manager) Acquire(id ID) (*Source, error) {
	if err := id.Check(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, fmt.Errorf("certificate of %v: %w", id, ErrReleased)
	}
	e := m.entries[id]
	if e == nil {
		e = &entry{m: m, id: id}
		e.state.Store(&state{err: ErrPending})
		e.ctx, e.stop = context.WithCancel(m.ctx)
		m.entries[id] = e
		m.stats.Sources++
		m.wg.Go(e.keep)
	}
	e.users++
	return &Source{e: e}, nil
}

// Close ends all renewals and waits for them. Who waits is told ErrReleased.
func (m *Manager) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop()
	m.wg.Wait()
}

// Stats returns the counts so far.
func (m *Manager) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stats
}

// A Status tells people about one identity.
type Status struct {
	ID    ID
	Users int // Sources that are not released
	// Certificate is what handshakes get; nil with an Err.
	Certificate *Certificate
	Err         error
	// Failing is why the last renewal failed, while Certificate is still good.
	Failing error
}

// List returns all identities, sorted by name.
func (m *Manager) List() []Status {
	m.mu.Lock()
	var all []Status
	for id, e := range m.entries {
		s := e.state.Load()
		all = append(all, Status{ID: id, Users: e.users, Certificate: s.cert, Err: s.err, Failing: e.failing})
	}
	m.mu.Unlock()
	slices.SortFunc(all, func(a, b Status) int { return strings.Compare(a.ID.String(), b.ID.String()) })
	return all
}
