package identity

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluice-mesh/sluice/internal/testkit"
)

// An authority is a working Issuer of which a test can break parts.
type authority struct {
	ca       *CA
	lifetime time.Duration

	mu     sync.Mutex
	broken error         // what Issue answers instead
	hold   chan struct{} // Issue waits until it is closed
	other  ID            // whom it names instead
	calls  []time.Time
	busy   int
	most   int // calls at the same time
}

func (a *authority) Issue(ctx context.Context, id ID) (*Certificate, error) {
	a.mu.Lock()
	a.calls = append(a.calls, time.Now())
	a.busy++
	a.most = max(a.most, a.busy)
	hold, broken, other := a.hold, a.broken, a.other
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.busy--
		a.mu.Unlock()
	}()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if broken != nil {
		return nil, broken
	}
	if !other.IsZero() {
		id = other
	}
	return a.ca.Issue(id, a.lifetime, nil)
}

func (a *authority) set(change func(*authority)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(a)
}

func (a *authority) asked() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.calls)
}

// A told is a Waiter that keeps what it was told.
type told struct {
	mu    sync.Mutex
	certs []*Certificate
	errs  []error
}

func (w *told) Certified(c *Certificate, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.certs, w.errs = append(w.certs, c), append(w.errs, err)
}

func (w *told) times() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.certs)
}

// A journal is a log that is read while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// managed runs fn in a bubble whose clock moves when all wait.
func managed(t *testing.T, fn func(t *testing.T, m *Manager, a *authority, log *journal)) {
	t.Helper()
	testkit.NoLeaks(t)
	synctest.Test(t, func(t *testing.T) {
		ca, err := NewCA("cluster.local", 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		a := &authority{ca: ca, lifetime: time.Hour}
		var log journal
		m := NewManager(Config{Issuer: a, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), AtOnce: 2})
		defer m.Close()
		fn(t, m, a, &log)
	})
}

// pass moves the bubble's clock by d and waits until all that it set off has been
// done. No real time goes by.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func acquire(t *testing.T, m *Manager, id ID) *Source {
	t.Helper()
	s, err := m.Acquire(id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A flow that comes before the first certificate waits without blocking anything.
func TestWaitForTheFirst(t *testing.T) {
	managed(t, func(t *testing.T, m *Manager, a *authority, _ *journal) {
		hold := make(chan struct{})
		a.set(func(a *authority) { a.hold = hold })
		web := named("cluster.local", "web")
		s := acquire(t, m, web)
		if _, err := s.Get(); !errors.Is(err, ErrPending) {
			t.Fatalf("got %v; want ErrPending", err)
		}
		first, second, forgotten := &told{}, &told{}, &told{}
		for _, w := range []*told{first, second, forgotten} {
			s.Wait(w)
		}
		if n := m.Stats().Waiting; n != 3 {
			t.Errorf("%d wait; want 3", n)
		}
		if !s.Forget(forgotten) || s.Forget(forgotten) {
			t.Error("a waiter is forgotten once")
		}
		close(hold)
		synctest.Wait()
		cert, err := s.Get()
		if err != nil || cert.ID() != web {
			t.Fatalf("got %v, %v", cert, err)
		}
		for _, w := range []*told{first, second} {
			if w.times() != 1 || w.certs[0] != cert || w.errs[0] != nil {
				t.Errorf("told %v, %v; want the certificate, once", w.certs, w.errs)
			}
		}
		if forgotten.times() != 0 || s.Forget(first) {
			t.Error("told who was forgotten, or forgot who was told")
		}
		late := &told{}
		s.Wait(late)
		if late.times() != 1 || late.certs[0] != cert {
			t.Error("not told at once when there is a certificate")
		}
		if n := m.Stats().Waiting; n != 0 {
			t.Errorf("%d wait; want none", n)
		}
	})
}

func TestRenewAtHalfLife(t *testing.T) {
	managed(t, func(t *testing.T, m *Manager, a *authority, _ *journal) {
		s := acquire(t, m, named("cluster.local", "web"))
		synctest.Wait()
		old, err := s.Get()
		if err != nil {
			t.Fatal(err)
		}
		half := old.NotBefore().Add(old.NotAfter().Sub(old.NotBefore()) / 2)
		pass(time.Until(half) - time.Millisecond)
		if cert, _ := s.Get(); cert != old || a.asked() != 1 {
			t.Fatalf("renewed before half of its life; asked %d times", a.asked())
		}
		pass(2 * time.Millisecond)
		cert, err := s.Get()
		if err != nil || cert == old || !cert.NotAfter().After(old.NotAfter()) || a.asked() != 2 {
			t.Fatalf("not renewed at half of its life: %v; asked %d times", err, a.asked())
		}
		if got := m.Stats(); got.Issued != 2 || got.Failures != 0 || got.Sources != 1 {
			t.Errorf("counted %+v", got)
		}
	})
}

// A renewal that fails leaves the old certificate while it is good, and not longer.
func TestRenewalFails(t *testing.T) {
	managed(t, func(t *testing.T, m *Manager, a *authority, log *journal) {
		s := acquire(t, m, named("cluster.local", "web"))
		synctest.Wait()
		old, err := s.Get()
		if err != nil {
			t.Fatal(err)
		}
		a.set(func(a *authority) { a.broken = errors.New("the authority is away") })
		pass(time.Until(old.NotAfter()) - time.Millisecond)
		if cert, err := s.Get(); cert != old || err != nil {
			t.Fatalf("before its end: %v, %v; want the old certificate", cert, err)
		}
		if all := m.List(); len(all) != 1 || all[0].Certificate != old || all[0].Failing == nil {
			t.Errorf("listed as %+v", all)
		}
		before := m.Stats()
		if before.Failures < 10 || before.Failures > 40 || before.Lapsed != 0 {
			t.Errorf("counted %+v within half an hour", before)
		}
		if !strings.Contains(log.String(), "old one is still good") {
			t.Errorf("logged\n%s", log)
		}
		pass(2 * time.Millisecond)
		_, err = s.Get()
		if err == nil {
			t.Fatal("an expired certificate is given to handshakes")
		}
		wantFault(t, err, Expired, "spiffe://cluster.local/ns/shop/sa/web", "the authority is away", "by the clock of this node")
		if got := m.Stats(); got.Lapsed != 1 {
			t.Errorf("counted %+v", got)
		}
		w := &told{}
		s.Wait(w)
		if w.times() != 1 || w.errs[0] == nil {
			t.Error("a flow waits for an authority that is away")
		}
		a.set(func(a *authority) { a.broken = nil })
		pass(3 * time.Minute) // the longest retry
		if cert, err := s.Get(); err != nil || cert == old {
			t.Errorf("the authority is back: %v, %v", cert, err)
		}
		if all := m.List(); all[0].Failing != nil {
			t.Errorf("still listed as failing: %+v", all[0])
		}
	})
}

func TestFirstFails(t *testing.T) {
	managed(t, func(t *testing.T, m *Manager, a *authority, log *journal) {
		a.set(func(a *authority) { a.broken = errors.New("the authority is away") })
		s := acquire(t, m, named("cluster.local", "web"))
		w := &told{}
		s.Wait(w)
		synctest.Wait()
		if w.times() != 1 || w.certs[0] != nil || !strings.Contains(w.errs[0].Error(), "the authority is away") {
			t.Fatalf("told %v, %v", w.certs, w.errs)
		}
		if _, err := s.Get(); err == nil || errors.Is(err, ErrPending) {
			t.Errorf("got %v; want the failure", err)
		}
		if !strings.Contains(log.String(), "no certificate") {
			t.Errorf("logged\n%s", log)
		}
		pass(10 * time.Second)
		// 1, 2 and 4 s, give or take a fifth.
		a.mu.Lock()
		calls := a.calls
		a.mu.Unlock()
		if len(calls) != 4 {
			t.Fatalf("asked %d times within 10 s; want 4", len(calls))
		}
		for i, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second} {
			if got := calls[i+1].Sub(calls[i]); got < want*8/10 || got > want*12/10 {
				t.Errorf("pause %d is %v; want about %v", i, got, want)
			}
		}
	})
}

// What an issuer gives is looked at.
func TestIssuerIsWrong(t *testing.T) {
	managed(t, func(t *testing.T, m *Manager, a *authority, _ *journal) {
		a.set(func(a *authority) { a.other = named("cluster.local", "pay") })
		s := acquire(t, m, named("cluster.local", "web"))
		synctest.Wait()
		if _, err := s.Get(); err == nil || !strings.Contains(err.Error(), "gave a certificate of spiffe://cluster.local/ns/shop/sa/pay") {
			t.Errorf("got %v", err)
		}
	})
}

// One identity is kept once for all pods that have it, and until the last is gone.
func TestSourcesShare(t *testing.T) {
	managed(t, func(t *testing.T, m *Manager, a *authority, _ *journal) {
		web := named("cluster.local", "web")
		one, two := acquire(t, m, web), acquire(t, m, web)
		synctest.Wait()
		first, _ := one.Get()
		if second, _ := two.Get(); first == nil || first != second || a.asked() != 1 {
			t.Fatalf("two certificates for one identity; asked %d times", a.asked())
		}
		one.Release()
		one.Release()
		pass(time.Hour)
		if cert, err := two.Get(); err != nil || cert == first || a.asked() < 2 {
			t.Fatalf("not renewed after one of two pods went: %v, %v", cert, err)
		}
		two.Release()
		synctest.Wait()
		asked := a.asked()
		pass(24 * time.Hour)
		if a.asked() != asked || m.Stats().Sources != 0 {
			t.Errorf("renewed without a pod: asked %d times, %+v", a.asked()-asked, m.Stats())
		}
		if _, err := two.Get(); !errors.Is(err, ErrReleased) {
			t.Errorf("got %v; want ErrReleased", err)
		}
		three := acquire(t, m, web)
		synctest.Wait()
		if _, err := three.Get(); err != nil {
			t.Errorf("acquired again: %v", err)
		}
	})
}

func TestReleaseTellsWhoWaits(t *testing.T) {
	managed(t, func(t *testing.T, m *Manager, a *authority, _ *journal) {
		a.set(func(a *authority) { a.hold = make(chan struct{}) })
		released, closed := acquire(t, m, named("cluster.local", "web")), acquire(t, m, named("cluster.local", "pay"))
		w, v := &told{}, &told{}
		released.Wait(w)
		closed.Wait(v)
		released.Release()
		synctest.Wait()
		if w.times() != 1 || !errors.Is(w.errs[0], ErrReleased) {
			t.Errorf("told %v; want ErrReleased", w.errs)
		}
		m.Close()
		if v.times() != 1 || !errors.Is(v.errs[0], ErrReleased) {
			t.Errorf("told %v at the end; want ErrReleased", v.errs)
		}
		if _, err := m.Acquire(named("cluster.local", "web")); !errors.Is(err, ErrReleased) {
			t.Errorf("acquired after the end: %v", err)
		}
	})
}

// Calls of Issue are bounded, and a slow one holds back no more than its place.
func TestIssueAtOnce(t *testing.T) {
	managed(t, func(t *testing.T, m *Manager, a *authority, _ *journal) {
		hold := make(chan struct{})
		a.set(func(a *authority) { a.hold = hold })
		for _, account := range []string{"a", "b", "c", "d", "e"} {
			acquire(t, m, named("cluster.local", account))
		}
		synctest.Wait()
		if n := a.asked(); n != 2 {
			t.Errorf("%d calls at once; want 2", n)
		}
		close(hold)
		synctest.Wait()
		if a.asked() != 5 || a.most != 2 || m.Stats().Issued != 5 {
			t.Errorf("asked %d times, %d at once, %d issued", a.asked(), a.most, m.Stats().Issued)
		}
	})
}

// Only what may be issued can be acquired.
func TestAcquireChecks(t *testing.T) {
	m := NewManager(Config{})
	defer m.Close()
	if _, err := m.Acquire(ID{TrustDomain: "cluster.local", Namespace: "a/b", ServiceAccount: "c"}); err == nil {
		t.Error("acquired an identity with a slash in it")
	}
}

// A clock that was set is noticed within a minute.
func TestClockJumps(t *testing.T) {
	testkit.NoLeaks(t)
	synctest.Test(t, func(t *testing.T) {
		ca, err := NewCA("cluster.local", 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var jump time.Duration
		now := func() time.Time { mu.Lock(); defer mu.Unlock(); return time.Now().Add(jump) }
		m := NewManager(Config{Issuer: issuerFunc(func(id ID) (*Certificate, error) { return ca.Issue(id, 0, now) }), Now: now})
		defer m.Close()
		s := acquire(t, m, named("cluster.local", "web"))
		synctest.Wait()
		old, err := s.Get()
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		jump = 3 * time.Hour
		mu.Unlock()
		pass(longestNap + time.Second)
		if cert, err := s.Get(); err != nil || cert == old {
			t.Errorf("a minute after the clock was set: %v, %v; want a new certificate", cert, err)
		}
	})
}

type issuerFunc func(id ID) (*Certificate, error)

func (f issuerFunc) Issue(_ context.Context, id ID) (*Certificate, error) { return f(id) }

// A handshake's way to its certificate costs nothing.
func TestBudgetGet(t *testing.T) {
	ca := newCA(t, "cluster.local")
	m := NewManager(Config{Issuer: issuerFunc(func(id ID) (*Certificate, error) { return ca.Issue(id, 0, noon) }), Now: noon})
	defer m.Close()
	s := acquire(t, m, named("cluster.local", "web"))
	testkit.Eventually(t, testkit.Wait, "a certificate", func() bool { _, err := s.Get(); return err == nil })
	if n := testing.AllocsPerRun(1000, func() { s.Get() }); n > 0 {
		t.Errorf("%v allocations for each Get", n)
	}
}
