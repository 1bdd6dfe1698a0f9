package session

import (
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// A full ring drops what comes, keeps what is there, and takes again once it was
// read.
func TestRingFull(t *testing.T) {
	r := newRing()
	for i := range ringRecords {
		if !r.put(flow.Record{ID: uint64(i)}) {
			t.Fatalf("record %d of %d was dropped", i, ringRecords)
		}
	}
	if r.put(flow.Record{ID: 1 << 40}) {
		t.Error("one more was taken than fits")
	}
	next := uint64(0)
	r.Take(func(rec *flow.Record) {
		if rec.ID != next {
			t.Fatalf("record %d comes where %d should", rec.ID, next)
		}
		next++
	})
	if next != ringRecords {
		t.Errorf("%d records were kept; want %d", next, ringRecords)
	}
	if !r.put(flow.Record{ID: 9}) {
		t.Error("an empty ring takes nothing")
	}
}

// One writes, one reads: nothing is lost, doubled or reordered, and what is
// dropped is known.
func TestRingConcurrent(t *testing.T) {
	r := newRing()
	const all = 50000
	dropped := make(chan int, 1)
	go func() {
		n := 0
		for i := 1; i <= all; i++ {
			if !r.put(flow.Record{ID: uint64(i)}) {
				n++
			}
		}
		dropped <- n
	}()
	got, last := 0, uint64(0)
	take := func(rec *flow.Record) {
		if rec.ID <= last {
			t.Errorf("record %d comes after %d", rec.ID, last)
		}
		got, last = got+1, rec.ID
	}
	for {
		r.Take(take)
		select {
		case n := <-dropped:
			r.Take(take)
			if got+n != all {
				t.Errorf("%d read and %d dropped of %d", got, n, all)
			}
			return
		default:
		}
	}
}

// The end of a flow is counted, and its record left for the log, or counted as
// dropped.
func TestRecord(t *testing.T) {
	testkit.NoLeaks(t)
	l, err := loop.New(0, loop.Config{})
	if err != nil {
		t.Fatal(err)
	}
	loops := []*loop.Loop{l}
	defer func() {
		l.Stop()
		if err := l.Run(); err != nil {
			t.Error(err)
		}
	}()
	e := NewEnv(Config{Log: true}, loops)
	pod := &Pod{env: e, Info: &flow.Pod{UID: "u", Name: "web-1", Namespace: "shop"}}
	s := &Session{pod: pod, loop: l, id: 7, path: flow.Inbound, why: flow.CloseIdle, errno: 110}
	for range ringRecords + 3 {
		s.record()
	}
	if got := l.Metrics.Closed[flow.Inbound][flow.CloseIdle]; got != ringRecords+3 {
		t.Errorf("%d ends are counted; want %d", got, ringRecords+3)
	}
	if got := l.Metrics.Count(metric.LogDropped); got != 3 {
		t.Errorf("%d records are counted as dropped; want 3", got)
	}
	n := 0
	for _, r := range e.Rings() {
		r.Take(func(rec *flow.Record) {
			n++
			if rec.ID != 7 || rec.Path != flow.Inbound || rec.Reason != flow.CloseIdle || rec.Errno != 110 || rec.Pod != pod.Info || rec.EndNano == 0 {
				t.Fatalf("the record is %+v", rec)
			}
		})
	}
	if n != ringRecords {
		t.Errorf("%d records are left; want %d", n, ringRecords)
	}

	pod.env = NewEnv(Config{}, loops)
	s.record()
	if rings := pod.env.Rings(); len(rings) != 0 || l.Metrics.Count(metric.LogDropped) != 3 || l.Metrics.Closed[flow.Inbound][flow.CloseIdle] != ringRecords+4 {
		t.Errorf("with the log off there are %d rings, or the end is not counted, or a record counts as dropped", len(rings))
	}
}
