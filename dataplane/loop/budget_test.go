package loop_test

import (
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

// rung counts the rings of an eventfd that stays registered.
type rung struct{ done chan struct{} }

func (r *rung) Ready(sys.Bits) { r.done <- struct{}{} }
func (r *rung) Call()          { r.done <- struct{}{} }
func (r *rung) Run()           { r.done <- struct{}{} }
func (r *rung) Fire()          { r.done <- struct{}{} }

// again queues what it holds for the next turn, on the loop.
type again struct {
	l *loop.Loop
	r *rung
	t loop.Timer
}

func (a *again) Call() {
	a.l.Again(a.r)
	a.l.Flush(a.r)
	a.l.Arm(&a.t, 0, a.r)
}

// Nothing that happens in a turn allocates.
func TestTurnBudget(t *testing.T) {
	l := onloop.Start(t, 7, loop.Config{})
	r := &rung{make(chan struct{})}
	f := bell(t)
	onloop.Do(t, l, func() { add(t, l, f, r) })
	a := &again{l: l, r: r}
	for _, tt := range []struct {
		name string
		fn   func()
	}{
		{"event", func() { sys.Signal(f); <-r.done }},
		{"posted call", func() { l.Post(r); <-r.done }},
		{"again, flush and timer", func() { l.Post(a); <-r.done; <-r.done; <-r.done }},
	} {
		if got := testing.AllocsPerRun(200, tt.fn); got > 0 {
			t.Errorf("%s: %v allocations; budget 0", tt.name, got)
		}
	}
}
