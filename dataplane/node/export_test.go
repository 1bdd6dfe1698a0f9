package node

import (
	"fmt"
	"sync"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/session"
)

// Refrozen counts in which states flows were when they were frozen.
type Refrozen struct {
	Flows, Dialing, Relaying int
	Held, Piped              int // with bytes in a block; in a pipe
	UpEnded, DownEnded       int // half-closed
	Splicing                 int
	Failed                   []error
}

// Refreeze writes down every flow of the node, drops it, and has it go on from
// what was written on the next loop.
func (n *Node) Refreeze(total *Refrozen) {
	n.mu.Lock()
	var open []*session.Pod
	for _, p := range n.open {
		open = append(open, p)
	}
	n.mu.Unlock()
	var mu sync.Mutex
	failed := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		total.Failed = append(total.Failed, err)
	}
	type move struct {
		f  *session.Frozen
		to int
	}
	for _, pod := range open {
		var moves []move
		for i, l := range n.loops {
			l.Do(func() {
				for _, s := range session.Here(l, 1<<20) {
					total.note(s)
				}
				for _, f := range pod.FreezeAll(l) {
					moves = append(moves, move{f, (i + 1) % len(n.loops)})
				}
			})
		}
		for _, m := range moves {
			pod.Thaw(m.f, n.loops[m.to], failed)
		}
		total.Flows += len(moves)
	}
	for _, l := range n.loops { // what was posted has been called
		if !l.Do(func() {}) {
			failed(fmt.Errorf("loop %d has ended", l.ID()))
		}
	}
	for _, l := range n.loops {
		l.Do(func() {})
	}
}

// Everything reports that each state was met.
func (r *Refrozen) Everything() bool {
	return min(r.Dialing, r.Relaying, r.Held, r.Piped, r.UpEnded, r.DownEnded, r.Splicing) > 0
}

func (r *Refrozen) note(i flow.Info) {
	count := func(n *int, is bool) {
		if is {
			*n++
		}
	}
	count(&r.Dialing, i.State == "dialing")
	count(&r.Relaying, i.State == "relaying")
	count(&r.Held, i.UpHeld+i.DownHeld > 0)
	count(&r.Piped, i.UpPipe+i.DownPipe > 0)
	count(&r.UpEnded, i.UpEnded && !i.DownEnded)
	count(&r.DownEnded, i.DownEnded && !i.UpEnded)
	count(&r.Splicing, i.UpSplicing || i.DownSplicing)
}

// Metrics sums what all loops count now.
func (n *Node) Metrics() (metric.Set, error) {
	var sum metric.Set
	sets, err := loop.Snapshot(n.loops, 5*time.Second)
	for _, s := range sets {
		if s != nil {
			sum.Merge(s)
		}
	}
	return sum, err
}

// Addr is where a server for people or probes listens.
func (n *Node) Addr(server string) string { return n.admin.Addr(server) }
