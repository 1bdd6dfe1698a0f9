// Package loop is a locked thread with an epoll, tokens, a timer wheel and
// posted calls. All flows of a node live on a few of them.
//
// Events enter by Add, calls from other threads by Post, time by Arm. Owns: the
// thread, the epoll instance, the registrations, and the pools of blocks and
// pipes that its flows borrow from. Threads: every method runs on the loop's
// thread, except where its comment says "from anywhere".
package loop

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/buf"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/splice"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// Config sets the sizes of one loop.
type Config struct {
	Events int           // events per wait; 0 means 256
	Memory buf.Allocator // where blocks live; nil means outside the heap
	Pipes  splice.Config

	// PanicEnds lets a fault in one flow end the process, as in tests. Else it
	// ends that flow, by way of Panicker.
	PanicEnds bool
	Log       Logger // told of contained faults; nil means nobody
}

// A Logger is told of faults that were contained.
type Logger interface {
	Panicked(loop int, v any, stack []byte)
}

// A Panicker is a Source, Timed, Call or Runner that can be ended when serving
// it panicked. Panicked runs on the loop.
type Panicker interface{ Panicked(v any) }

// A Loop serves events until it is stopped.
type Loop struct {
	// Fixed after New.
	id     int
	cfg    Config
	poller sys.Poller
	home   *sys.FD // the namespace that the thread belongs in
	wake   sys.FD  // an eventfd
	done   chan struct{}

	// Owned by Run's thread; methods that touch these call onLoop.
	Metrics  metric.Set
	Blocks   *buf.Pool
	Pipes    *splice.Pool
	Vec      sys.Vec
	scratch  *buf.Block // lent to whoever reads, for the length of one call
	room     [1][]byte  // what Room returns
	tid      int
	slots    []*[slotPage]slot // index is the low half of a Token
	freeSlot uint32
	events   []sys.Event
	pending  []sys.Event // what is left of events in this turn
	again    []Runner
	running  []Runner // of which the first ran have been run
	ran      int
	flushes  []Runner
	timers   wheel
	calls    []Call        // taken from posted
	spare    []Call        // the list that posted is swapped with
	now      time.Duration // since started
	serving  any           // what a panic is blamed on
	stopped  bool
	locals   map[any]any

	started time.Time

	flows atomic.Int64 // flows that live here; read by other loops to place new ones

	// Shared. mu guards posted and ended and is never held across a system call.
	mu     sync.Mutex
	posted []Call
	ended  bool // nothing is taken any more
	asleep atomic.Bool
	waking atomic.Int32 // threads that are about to write to the eventfd
}

// New makes a loop whose thread will live in the caller's namespace.
func New(id int, cfg Config) (*Loop, error) {
	if cfg.Events == 0 {
		cfg.Events = 256
	}
	drop := sys.DropMemory
	if cfg.Memory == nil {
		cfg.Memory = sys.MapMemory
	} else {
		drop = nil
	}
	l := &Loop{
		id: id, cfg: cfg, done: make(chan struct{}), started: time.Now(),
		Blocks: buf.NewPool(cfg.Memory, drop, sys.Checked),
		Pipes:  splice.NewPool(cfg.Pipes),
		events: make([]sys.Event, cfg.Events),
		locals: map[any]any{},
	}
	var err error
	defer func() {
		if err != nil {
			l.closeAll()
		}
	}()
	if l.scratch, err = l.Blocks.Get(); err != nil {
		return nil, err
	}
	if l.home, err = sys.ThreadNamespace(); err != nil {
		return nil, fmt.Errorf("own network namespace: %w", err)
	}
	if err = l.poller.Open(); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	if err = sys.EventFD(&l.wake); err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	// Slot 0 is the eventfd's.
	l.morePages()
	l.slot(0).src = (*waker)(l)
	if err = l.poller.Add(&l.wake, sys.Readable|sys.Edge, 0); err != nil {
		return nil, fmt.Errorf("watch eventfd: %w", err)
	}
	return l, nil
}

// waker is the Source of the eventfd: the call itself is in posted.
type waker Loop

func (w *waker) Ready(sys.Bits) { sys.Unsignal(&w.wake) }

// ID is the loop's number; from anywhere.
func (l *Loop) ID() int { return l.id }

// Now is the time of this turn, as a distance from a fixed point.
func (l *Loop) Now() time.Duration { return l.now }

// Scratch lends the loop's block: for one call, to one caller.
func (l *Loop) Scratch() []byte { return l.scratch.Free() }

// Room lends the first max bytes of the same block, as a list of one.
func (l *Loop) Room(max int) [][]byte {
	b := l.scratch.Free()
	l.room[0] = b[:min(max, len(b))]
	return l.room[:]
}

// Flows is how many flows live here; from anywhere.
func (l *Loop) Flows() int { return int(l.flows.Load()) }

// CountFlow moves the number of flows that live here by n; from anywhere.
func (l *Loop) CountFlow(n int) { l.flows.Add(int64(n)) }

// Local is the loop's own value for an upper layer's key, such as a pool; make
// builds it the first time.
func (l *Loop) Local(key any, make func(*Loop) any) any {
	l.onLoop()
	v, ok := l.locals[key]
	if !ok {
		v = make(l)
		l.locals[key] = v
	}
	return v
}

// onLoop panics off the loop's thread, in builds with the "checked" tag.
func (l *Loop) onLoop() {
	if sys.Checked && l.tid != 0 && sys.Gettid() != l.tid {
		panic("loop: called off the loop's thread")
	}
}

// Run serves events until Stop, or until epoll itself fails. One turn is: wait,
// ready sources, run-again queue, posted calls, timers, flush. Nothing in a turn
// blocks, and no source may do unbounded work.
func (l *Loop) Run() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer l.closeAll()
	l.tid = sys.Gettid()
	for !l.stopped {
		if err := l.wait(); err != nil {
			return fmt.Errorf("loop %d: wait: %w", l.id, err)
		}
		for !l.turn() {
		}
	}
	return nil
}

// briefMS is how long a loop waits while it keeps its processor. Handing that
// back and getting it again costs two futex calls and keeps the runtime's
// monitor thread busy: 18 % of the CPU of request-response over 64 connections and
// 11 % of that of churn with 32 clients. An idle loop gives it back.
const briefMS = 1

// wait fetches events: what is ready; then, if there is nothing to do at all,
// what comes soon; then whatever comes next, out of the scheduler's view.
func (l *Loop) wait() error {
	l.Metrics.Inc(metric.Turns)
	n, err := l.poller.Poll(l.events, 0)
	if err == nil && n == 0 && len(l.again) == 0 {
		l.asleep.Store(true)
		n, err = l.sleep()
		l.asleep.Store(false)
	}
	if err != nil {
		return err
	}
	l.now = l.clock()
	l.pending = l.events[:n]
	return nil
}

func (l *Loop) sleep() (n int, err error) {
	if l.hasPosted() {
		return 0, nil
	}
	l.Metrics.Inc(metric.Sleeps)
	if n, err = l.poller.Poll(l.events, briefMS); n > 0 || err != nil || l.hasPosted() {
		return n, err
	}
	return l.poller.Wait(l.events, l.timers.untilNext(l.clock()))
}

func (l *Loop) clock() time.Duration { return time.Since(l.started) }

// turn serves what is there. It reports false when it was cut short by a panic
// that was contained: it is called again for the rest, of which nothing is lost.
func (l *Loop) turn() (whole bool) {
	defer l.contain()
	for len(l.pending) > 0 {
		ev := &l.pending[0]
		l.pending = l.pending[1:]
		l.dispatch(ev)
	}
	if l.ran == len(l.running) {
		l.running, l.again, l.ran = l.again, l.running[:0], 0
	}
	for l.ran < len(l.running) {
		r := l.running[l.ran]
		l.running[l.ran] = nil
		l.ran++
		l.serving = r
		r.Run()
	}
	l.takePosted()
	for len(l.calls) > 0 {
		c := l.calls[0]
		l.calls[0] = nil
		l.calls = l.calls[1:]
		l.serving = c
		c.Call()
	}
	for t := l.timers.next(l.now); t != nil; t = l.timers.next(l.now) {
		l.serving = t.what
		t.what.Fire()
	}
	for len(l.flushes) > 0 {
		f := l.flushes[len(l.flushes)-1]
		l.flushes = l.flushes[:len(l.flushes)-1]
		l.serving = f
		f.Run()
	}
	l.serving = nil
	return true
}

// contain ends the one flow that was being served when its turn panicked.
func (l *Loop) contain() {
	v := recover()
	if v == nil {
		return
	}
	victim, ok := l.serving.(Panicker)
	l.serving = nil
	if !ok || l.cfg.PanicEnds {
		panic(v)
	}
	l.Metrics.Inc(metric.Panics)
	if l.cfg.Log != nil {
		l.cfg.Log.Panicked(l.id, v, debug.Stack())
	}
	victim.Panicked(v)
}

// Stop ends Run after this turn; from anywhere. What was posted before is
// called first.
func (l *Loop) Stop() {
	l.Post(Func(func() { l.stopped = true }))
}

// Done is closed when Run has ended; from anywhere.
func (l *Loop) Done() <-chan struct{} { return l.done }

// closeAll gives back what the loop owns. Calls that were posted too late run
// here: they may own descriptors.
func (l *Loop) closeAll() {
	l.mu.Lock()
	l.ended = true
	late := l.posted
	l.posted = nil
	l.mu.Unlock()
	for l.waking.Load() > 0 { // else they might write to a stranger of the same number
		runtime.Gosched()
	}
	for _, c := range append(l.calls, late...) {
		c.Call()
	}
	l.Pipes.Close()
	_ = l.poller.Close()
	_ = l.wake.Close()
	if l.home != nil {
		_ = l.home.Close()
	}
	close(l.done)
}
