// Package load makes the load that a bench puts on what it measures: bulk,
// request and response in closed and open loop, churn and idle connections.
//
// Data enters as a Spec; events and a Result leave. Client and Server are meant
// to be two processes of their own, so that neither costs the subject anything
// but the processor time that it takes away. Every byte is compared with a
// seeded pattern, every error is counted by step and cause, and an exchange that
// does not end is an error too.
//
// Owns: its sockets and threads, until Client or Server returns. Threads: each
// call runs threads of its own; one call does not know of another.
package load

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Client runs the client's side. It tells emit when the counted time begins and
// ends, from another goroutine, and returns when all is closed. When ctx ends
// early, the result holds what was counted until then.
func Client(ctx context.Context, spec Spec, emit func(Event)) (*Result, error) {
	spec, err := spec.check()
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	clock := StartClock()
	if spec.Kind == Idle {
		spec.Threads = 1
	}
	workers := make([]*worker, spec.Threads)
	for i := range workers {
		share := spec
		share.Conns = spec.Conns / spec.Threads
		if i < spec.Conns%spec.Threads {
			share.Conns++
		}
		share.Rate = spec.Rate / float64(spec.Threads)
		if workers[i], err = newWorker(share, clock, i); err != nil {
			for _, w := range workers[:i] {
				w.close()
			}
			return nil, fmt.Errorf("client: %w", err)
		}
	}
	begin := clock.Now() + spec.Warm
	end := begin + spec.Length

	var wg sync.WaitGroup
	errs := make([]error, len(workers))
	for i, w := range workers {
		wg.Go(func() { errs[i] = w.run(ctx, begin, end, emit) })
	}
	ended := end
	if spec.Kind != Idle {
		at(ctx, clock, begin)
		emit(Event{Event: EventBegin, At: clock.Now()})
		at(ctx, clock, end)
		ended = min(end, clock.Now())
		emit(Event{Event: EventEnd, At: clock.Now()})
	}
	wg.Wait()
	res := new(Result)
	for i, w := range workers {
		if errs[i] != nil {
			return nil, fmt.Errorf("client: %w", errs[i])
		}
		res.add(&w.res)
	}
	res.Seconds = max(ended-begin, 0).Seconds()
	res.Latency = res.histogram.Latency()
	emit(Event{Event: EventResult, At: clock.Now(), Result: res})
	return res, nil
}

// at waits until the clock says t, or ctx ends.
func at(ctx context.Context, c Clock, t time.Duration) {
	timer := time.NewTimer(t - c.Now())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
