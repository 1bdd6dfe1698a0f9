// Package onloop runs event loops in tests of what lives on them.
package onloop

import (
	"errors"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// Heap is where blocks of tests live: the race detector sees nothing elsewhere.
func Heap(size int) ([]byte, error) { return make([]byte, size), nil }

// Start runs a loop, whose blocks live on the heap, until the test ends.
func Start(t testing.TB, id int, cfg loop.Config) *loop.Loop {
	t.Helper()
	cfg.Memory = Heap
	l, err := loop.New(id, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Run() }()
	t.Cleanup(func() {
		l.Stop()
		if err := testkit.Receive(t, testkit.Wait, "the loop ends", ended); err != nil {
			t.Error(err)
		}
	})
	return l
}

// Do runs fn on the loop and waits for it.
func Do(t testing.TB, l *loop.Loop, fn func()) {
	t.Helper()
	testkit.Within(t, testkit.Wait, "a call on the loop", func() error {
		if !l.Do(fn) {
			return errors.New("the loop has ended")
		}
		return nil
	})
}

// Eventually polls cond on the loop.
func Eventually(t testing.TB, l *loop.Loop, what string, cond func() bool) {
	t.Helper()
	testkit.Eventually(t, testkit.Wait, what, func() (ok bool) {
		Do(t, l, func() { ok = cond() })
		return ok
	})
}
