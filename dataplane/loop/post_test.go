package loop_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

// spin keeps the goroutine busy: the loop falls asleep at some moment of it.
func spin(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
		runtime.Gosched()
	}
}

// No call is lost, however close to falling asleep the loop is when it is posted.
func TestPostWhileFallingAsleep(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 7, loop.Config{PanicEnds: true})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	pong := make(chan int, 1)
	for i := range testkit.Scaled(1500, 100_000) {
		// The loop polls, waits for a millisecond, then for ever.
		spin(time.Duration(r.Int64N([]int64{1, 20e3, 1500e3}[r.IntN(3)])))
		if !l.Post(loop.Func(func() { pong <- i })) {
			t.Fatal("the loop has ended")
		}
		if got := testkit.Receive(t, testkit.Wait, "the posted call", pong); got != i {
			t.Fatalf("call %d instead of %d", got, i)
		}
	}
	if n := counter(t, l, metric.Sleeps); n == 0 {
		t.Error("the loop never slept: this test shows nothing")
	}
}

// Calls from one goroutine keep their order, and those from many all come.
func TestPostFromMany(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 7, loop.Config{PanicEnds: true})
	const users, each = 8, 500
	var wg sync.WaitGroup
	last := make([]int, users) // touched on the loop only: the race detector checks
	for u := range users {
		wg.Go(func() {
			for i := 1; i <= each; i++ {
				l.Post(loop.Func(func() {
					if last[u] != i-1 {
						t.Errorf("user %d: call %d came after %d", u, i, last[u])
					}
					last[u] = i
				}))
				if i%100 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	wg.Wait()
	onloop.Do(t, l, func() {
		for u, n := range last {
			if n != each {
				t.Errorf("user %d: %d calls came; want %d", u, n, each)
			}
		}
	})
}

// What was posted before Stop is called; what Post refused is not; and there is
// nothing in between: a call may own a descriptor.
func TestStopWithPostedCalls(t *testing.T) {
	testkit.NoLeaks(t)
	for range testkit.Scaled(50, 2000) {
		l, err := loop.New(0, loop.Config{Memory: onloop.Heap, PanicEnds: true})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- l.Run() }()
		var taken, called atomic.Int64
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for l.Post(loop.Func(func() { called.Add(1) })) {
					taken.Add(1)
				}
			})
		}
		before := false
		l.Post(loop.Func(func() { before = true }))
		l.Stop()
		if err := testkit.Receive(t, testkit.Wait, "the loop ends", ended); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		testkit.Receive(t, testkit.Wait, "Done", closed(l.Done()))
		if !before || taken.Load() != called.Load() {
			t.Fatalf("the call before Stop ran: %v; %d were taken and %d ran", before, taken.Load(), called.Load())
		}
		if l.Do(func() { t.Error("ran on a loop that has ended") }) {
			t.Error("a loop that has ended says that it did something")
		}
		l.Stop() // does nothing
	}
}

// A loop that never ran gives back what it owns when its one turn is stopped.
func TestStopBeforeRun(t *testing.T) {
	testkit.NoLeaks(t)
	l, err := loop.New(0, loop.Config{Memory: onloop.Heap})
	if err != nil {
		t.Fatal(err)
	}
	l.Stop()
	testkit.Within(t, testkit.Wait, "a loop that was stopped before", l.Run)
}
