package load

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

const (
	turnBytes  = 1 << 20               // of bulk per connection and turn
	retryAfter = 2 * time.Millisecond  // a connection that failed is opened again
	heartbeat  = 20 * time.Millisecond // how long a turn waits at most
	openAtOnce = 64                    // idle: connections on their way at a time
	timerData  = ^uint64(0)            // tells the timer's event
	endGrace   = 5 * time.Second       // bulk: for what lies in buffers at the end
)

// A worker is one thread of a client: an epoll and its connections.
type worker struct {
	// Fixed after newWorker.
	spec     Spec
	clock    Clock
	up, down *Pattern
	buf      []byte

	// Owned by run's thread.
	poll    sys.Poller
	timer   sys.FD
	conns   []conn
	active  []*conn // bulk: used up their turn
	retry   []*conn // failed; opened again at retryAt
	free    []*conn // open loop: wait for the next request that is due
	retryAt time.Duration
	target  int // of the next connection
	settled int // idle: connections that had their exchange
	lost    int // idle: connections that failed
	nextDue time.Duration
	gap     time.Duration // open loop: between requests; 0 means closed loop
	begin   time.Duration
	end     time.Duration
	ending  bool // nothing new is started
	sample  sampler
	res     Result
}

func newWorker(spec Spec, clock Clock, index int) (*worker, error) {
	w := &worker{
		spec:   spec,
		clock:  clock,
		up:     NewPattern(spec.Seed, true),
		down:   NewPattern(spec.Seed, false),
		buf:    make([]byte, windowBytes),
		conns:  make([]conn, spec.Conns),
		target: index,
		sample: sampler{every: spec.Sample},
	}
	for i := range w.conns {
		w.conns[i].id = uint64(i)
	}
	if spec.Rate > 0 {
		w.gap = time.Duration(float64(time.Second) / spec.Rate)
	}
	if err := w.poll.Open(); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	err := sys.TimerFD(&w.timer)
	if err == nil {
		err = w.poll.Add(&w.timer, sys.Readable|sys.Edge, timerData)
	}
	if err != nil {
		w.close()
		return nil, fmt.Errorf("timer: %w", err)
	}
	return w, nil
}

func (w *worker) close() {
	for i := range w.conns {
		_ = w.conns[i].fd.Close() // nothing is left to send
	}
	_ = w.timer.Close()
	_ = w.poll.Close()
}

// run serves the connections until the end, and then ends them in order.
func (w *worker) run(ctx context.Context, begin, end time.Duration, emit func(Event)) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer w.close()
	w.begin, w.end, w.nextDue = begin, end, w.clock.Now()
	if w.spec.Kind == Idle {
		return w.runIdle(ctx, emit)
	}
	for i := range w.conns {
		if w.gap > 0 && w.spec.Kind == Churn {
			w.free = append(w.free, &w.conns[i]) // opened when it is due
			continue
		}
		w.connect(&w.conns[i], w.clock.Now())
	}
	if err := w.until(func(now time.Duration) bool { return now >= end || ctx.Err() != nil }); err != nil {
		return err
	}
	w.end = min(w.end, w.clock.Now())
	return w.finish()
}

// finish lets what is under way come to its end, and counts what does not.
func (w *worker) finish() error {
	w.ending = true
	last := w.clock.Now() + patience
	if w.spec.Kind == Bulk {
		last = w.clock.Now() + endGrace
		w.active = w.active[:0]
		for i := range w.conns {
			w.endBulk(&w.conns[i])
		}
	}
	err := w.until(func(now time.Duration) bool { return now >= last || w.quiet() })
	if err != nil {
		return err
	}
	now := w.clock.Now()
	for i := range w.conns {
		w.abandon(&w.conns[i], now)
	}
	for w.gap > 0 && w.nextDue < w.end { // due, and never started
		if w.nextDue >= w.begin {
			w.res.Unserved++
			w.res.histogram.Record(now - w.nextDue)
		}
		w.nextDue += w.gap
	}
	return nil
}

// quiet reports whether nothing is under way any more.
func (w *worker) quiet() bool {
	for i := range w.conns {
		if w.conns[i].phase.busy() {
			return false
		}
	}
	return true
}

// until takes turns until done. A turn is: what is due, wait, events, the
// senders that used up their turn, the connections to be opened again.
func (w *worker) until(done func(now time.Duration) bool) error {
	events := make([]sys.Event, 256)
	for {
		now := w.clock.Now()
		if done(now) {
			return nil
		}
		wait := min(heartbeat, max(w.end-now, 0))
		if w.ending || w.spec.Kind == Idle {
			wait = heartbeat
		}
		if w.gap > 0 && !w.ending {
			if err := w.startDue(now); err != nil {
				return err
			}
		}
		if len(w.retry) > 0 {
			wait = min(wait, max(w.retryAt-now, 0))
		}
		if len(w.active) > 0 {
			wait = 0
		}
		n, err := w.poll.Wait(events, wait)
		if err != nil {
			return fmt.Errorf("epoll wait: %w", err)
		}
		for i := range events[:n] {
			if d := events[i].Data(); d != timerData {
				w.ready(&w.conns[d], events[i].Bits())
			}
		}
		turn := w.active
		w.active = w.active[len(w.active):]
		for _, c := range turn {
			if w.spec.Down {
				w.receive(c, false)
			} else {
				w.send(c)
			}
		}
		if len(w.retry) > 0 && !w.ending && w.clock.Now() >= w.retryAt {
			again := w.retry
			w.retry = nil
			for _, c := range again {
				w.reopen(c)
			}
		}
	}
}

// startDue starts every request of the open loop whose time has come, on the
// connections that are free. When none is, the rest stay due: their latency
// counts from when they were, so a stall hides nothing.
func (w *worker) startDue(now time.Duration) error {
	for w.nextDue <= now && len(w.free) > 0 {
		c := w.free[len(w.free)-1]
		w.free = w.free[:len(w.free)-1]
		due := w.nextDue
		w.nextDue += w.gap
		w.start(c, due)
	}
	if len(w.free) > 0 {
		if err := sys.SetTimer(&w.timer, w.nextDue-w.clock.Now()); err != nil {
			return fmt.Errorf("set timer: %w", err)
		}
	}
	return nil
}

// runIdle opens all connections, one exchange each, and holds them.
func (w *worker) runIdle(ctx context.Context, emit func(Event)) error {
	emit(Event{Event: EventBegin, At: w.clock.Now()})
	w.begin, w.end = 0, 1<<62
	last := w.clock.Now() + time.Duration(len(w.conns))*10*time.Millisecond + endGrace
	opened := 0
	all := func(now time.Duration) bool {
		for opened < len(w.conns) && opened-w.settled-w.lost < openAtOnce {
			w.connect(&w.conns[opened], now)
			opened++
		}
		return w.settled+w.lost == len(w.conns) || now >= last || ctx.Err() != nil
	}
	if err := w.until(all); err != nil {
		return err
	}
	for i := range w.conns {
		if c := &w.conns[i]; c.phase.busy() {
			w.fail(c, "open", "not open in time")
		}
	}
	last = w.clock.Now() + w.spec.Length
	if err := w.until(func(now time.Duration) bool { return now >= last || ctx.Err() != nil }); err != nil {
		return err
	}
	emit(Event{Event: EventEnd, At: w.clock.Now()})
	return nil
}
