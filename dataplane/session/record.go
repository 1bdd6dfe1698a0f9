package session

import (
	"sync/atomic"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/metric"
)

// record counts the end of a flow and leaves its record in the loop's ring.
func (s *Session) record() {
	l := s.loop
	l.Metrics.Closed[s.path][s.why]++
	ring := s.pod.env.rings[l]
	if ring == nil {
		return
	}
	age := time.Duration(0)
	if s.began != 0 { // negative when the flow is older than its loop
		age = l.Now() - s.began
	}
	rec := flow.Record{
		ID: s.id, Tuple: s.tuple, Upstream: s.to, Source: s.source, Path: s.path,
		Verdict: s.verdict, Reason: s.why, Errno: uintptr(s.errno), Counts: s.pair.Counts(),
		AgeNano: int64(age), EndNano: time.Now().UnixNano(), Pod: s.pod.Info,
	}
	if h := s.hop; h != nil {
		rec.Authority, rec.Us, rec.Them, rec.Detail = h.authority, h.us, h.them, h.detail
	}
	if !ring.put(rec) {
		l.Metrics.Inc(metric.LogDropped)
	}
}

// ringRecords is how many records wait to be written, per loop, at most.
const ringRecords = 4096

// A Ring carries records from one loop to the one goroutine that writes them.
// When it is full records are dropped and counted: a loop never waits for
// whoever reads the log.
type Ring struct {
	recs []flow.Record
	head atomic.Uint64 // next to be put; written by the loop
	tail atomic.Uint64 // next to be taken; written by the reader
}

func newRing() *Ring { return &Ring{recs: make([]flow.Record, ringRecords)} }

func (r *Ring) put(rec flow.Record) bool {
	head := r.head.Load()
	if head-r.tail.Load() == ringRecords {
		return false
	}
	r.recs[head%ringRecords] = rec
	r.head.Store(head + 1)
	return true
}

// Take calls write with each record that waits, in order; by one goroutine.
func (r *Ring) Take(write func(*flow.Record)) {
	for tail := r.tail.Load(); tail != r.head.Load(); tail++ {
		write(&r.recs[tail%ringRecords])
		r.tail.Store(tail + 1)
	}
}
