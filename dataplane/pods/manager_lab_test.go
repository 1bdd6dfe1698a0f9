package pods_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/pods"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// A pod that is up stays up when its uid comes with a namespace that can't be
// served yet, until that one is: the old one drains, the new one waits.
func TestLabAddWhilePending(t *testing.T) {
	cfg := quick
	cfg.Retry = 5 * time.Millisecond
	b := start(t, cfg)
	b.ok(snapshotSent())
	stale := namespace(t)
	occupy(t, stale)
	b.nack(add("a"), stale.FD())
	b.want("a:Pending ")
	good := namespace(t)
	b.ok(add("a"), good.FD())
	b.want("a:Up ")
	b.ready(true)
	tries := b.h.started()
	b.ok(add("a"), good.FD())
	testkit.Eventually(t, testkit.Wait, "a quiet while", idle(t, 10*cfg.Retry))
	if n := b.h.started(); n != tries {
		t.Errorf("the stale namespace was tried again (%d starts after %d)", n, tries)
	}
	if s := b.m.Snapshot(); len(s) != 1 || s[0].Netns != good.ID() {
		t.Errorf("snapshot is %+v; want the pod in %v", s, good.ID())
	}
}

// idle is true once d has passed.
func idle(t *testing.T, d time.Duration) func() bool {
	t.Helper()
	until := time.Now().Add(d)
	return func() bool { return time.Now().After(until) }
}

func TestLabPendingIsClearedByReconnect(t *testing.T) {
	b := start(t, quick)
	ns := namespace(t)
	occupy(t, ns)
	b.nack(add("a"), ns.FD())
	b.hangUp()
	b.accept()
	b.want("")
	b.ok(snapshotSent())
	b.ready(true)
}

func TestLabReplacedPendingKeepsTheLatest(t *testing.T) {
	cfg := quick
	cfg.Retry = 5 * time.Millisecond
	b := start(t, cfg)
	b.ok(snapshotSent())
	first, second := namespace(t), namespace(t)
	occupy(t, first)
	l := occupy(t, second)
	b.nack(add("a"), first.FD())
	b.nack(add("a"), second.FD())
	if s := b.m.Snapshot(); len(s) != 1 || s[0].Netns != second.ID() {
		t.Errorf("snapshot is %+v; want one pending pod, in %v", s, second.ID())
	}
	l.Close()
	b.want("a:Up ")
	if s := b.m.Snapshot(); s[0].Netns != second.ID() {
		t.Errorf("up in %v; want %v", s[0].Netns, second.ID())
	}
}

func TestLabRefusedNamespaces(t *testing.T) {
	b := start(t, quick)
	b.ok(snapshotSent())
	own, err := netns.Current()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if failure := b.ask(add("host"), own.FD()); !strings.Contains(failure, "own network namespace") {
		t.Errorf("the proxy's own namespace was answered with %q", failure)
	}
	null, err := sys.LockFile(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if failure := b.ask(add("file"), null); !strings.Contains(failure, "not a network namespace") {
		t.Errorf("a plain file was answered with %q", failure)
	}
	b.want("")
	b.ready(true)
	if s := b.m.Stats(); s.Refused != 2 || s.Started != 0 {
		t.Errorf("counters are %+v", s)
	}
}

func TestLabShutdownDrains(t *testing.T) {
	b := start(t, quick)
	b.ok(add("a"), namespace(t).FD())
	b.ok(add("b"), namespace(t).FD())
	b.ok(add("c"), namespace(t).FD())
	b.ok(snapshotSent())
	a, c := b.h.last("a"), b.h.last("c")
	a.flow(+1)
	c.flow(+1)
	b.ok(del("c"))
	b.stop()
	b.closed() // it reads no more
	b.want("a:Draining c:Draining ")
	b.ready(false)
	if d := a.drains(); len(d) != 1 || d[0] != quick.ProcessDrain {
		t.Errorf("a was drained with %v; want %v", d, quick.ProcessDrain)
	}
	testkit.Eventually(t, testkit.Wait, "a shorter limit for c", func() bool {
		d := c.drains()
		return len(d) == 2 && d[0] == quick.PodDrain && d[1] == quick.ProcessDrain
	})
	if e := c.endings(); !slices.Equal(e, []bool{false, true}) {
		t.Errorf("the host was told of the end before each drain of c: %v; want false, true", e)
	}
	a.flow(-1)
	c.flow(-1)
	if err := testkit.Receive(t, testkit.Wait, "end of the manager", b.end); err != nil {
		t.Errorf("Run returned %v; want nil", err)
	}
	b.want("")
}

func TestLabShutdownAbandons(t *testing.T) {
	cfg := quick
	cfg.ProcessDrain = 10 * time.Millisecond
	b := start(t, cfg)
	b.ok(add("stuck"), namespace(t).FD())
	b.h.last("stuck").flow(+1)
	b.stop()
	err := testkit.Receive(t, testkit.Wait, "end of the manager", b.end)
	if err == nil || !strings.Contains(err.Error(), "stuck") {
		t.Errorf("Run returned %v; want the pod that did not end", err)
	}
	if s := b.m.Stats(); s.Abandoned != 1 {
		t.Errorf("counters are %+v; want one abandoned", s)
	}
}

// Nobody listens, then somebody does.
func TestLabConnectBackoff(t *testing.T) {
	lab.Require(t)
	testkit.NoLeaks(t)
	cfg := quick
	cfg.Socket = filepath.Join(t.TempDir(), "later.sock")
	m, err := pods.New(cfg, &host{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan error, 1)
	go func() { end <- m.Run(ctx) }()
	testkit.Eventually(t, testkit.Wait, "some tries", func() bool { return m.Stats().ConnectErrors >= 3 })
	cancel()
	if err := testkit.Receive(t, testkit.Wait, "end of the manager", end); err != nil {
		t.Errorf("Run returned %v; want nil", err)
	}
}

// An agent that takes connections and drops them must not make the proxy spin.
func TestLabAgentThatHangsUp(t *testing.T) {
	cfg := quick
	cfg.BackoffMin, cfg.BackoffMax = time.Hour, time.Hour
	b := start(t, cfg)
	b.hangUp()
	testkit.Eventually(t, testkit.Wait, "a quiet while", idle(t, 50*time.Millisecond))
	if s := b.m.Stats(); s.Connects != 1 {
		t.Errorf("connected %d times within 50 ms; want it to wait after one that asked nothing", s.Connects)
	}
}

func TestConfig(t *testing.T) {
	for name, c := range map[string]pods.Config{
		"negative":  {PodDrain: -1},
		"backoff":   {BackoffMin: time.Second, BackoffMax: time.Millisecond},
		"mode name": {Modes: []string{strings.Repeat("m", 2000)}},
	} {
		if _, err := pods.New(c, &host{}, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
