package loop_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

// counter reads a counter of the loop.
func counter(t testing.TB, l *loop.Loop, c metric.Counter) (n uint64) {
	t.Helper()
	onloop.Do(t, l, func() { n = l.Metrics.Count(c) })
	return n
}

// source is a Source made of a function.
type source func(sys.Bits)

func (s source) Ready(bits sys.Bits) { s(bits) }

// runner is a Runner made of a function.
type runner func()

func (r runner) Run() { r() }

// bell is an eventfd.
func bell(t testing.TB) *sys.FD {
	t.Helper()
	f := new(sys.FD)
	if err := sys.EventFD(f); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// add registers f; on the loop.
func add(t testing.TB, l *loop.Loop, f *sys.FD, src loop.Source) loop.Token {
	tok, err := l.Add(f, sys.Readable|sys.Edge, src)
	if err != nil {
		t.Errorf("add: %v", err)
	}
	return tok
}

// An event for a registration that went away in the same turn reaches nobody,
// not even a new registration with the same descriptor number and slot.
func TestStaleEvent(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 7, loop.Config{PanicEnds: true})
	var (
		bells   = [2]*sys.FD{bell(t), bell(t)}
		toks    [2]loop.Token
		fresh   sys.FD
		wrong   int
		renewed loop.Token
		done    = make(chan struct{})
	)
	defer fresh.Close()
	onloop.Do(t, l, func() {
		for i := range bells {
			other := 1 - i
			toks[i] = add(t, l, bells[i], source(func(sys.Bits) {
				if renewed != 0 {
					wrong++
					return
				}
				raw := bells[other].Raw()
				l.Remove(toks[other])
				bells[other].Close()
				if err := sys.EventFD(&fresh); err != nil || fresh.Raw() != raw {
					t.Errorf("the new descriptor is %d, %v; want the number %d again", fresh.Raw(), err, raw)
				}
				renewed = add(t, l, &fresh, source(func(sys.Bits) { wrong++ }))
				if uint32(renewed) != uint32(toks[other]) {
					t.Errorf("slot %d was not used again", uint32(toks[other]))
				}
				close(done)
			}))
		}
		// Both are ready before the loop asks again.
		sys.Signal(bells[0])
		sys.Signal(bells[1])
	})
	testkit.Receive(t, testkit.Wait, "an event", closed(done))
	if n := counter(t, l, metric.StaleEvents); n != 1 || wrong != 0 {
		t.Errorf("%d stale events were counted, %d delivered; want 1, 0", n, wrong)
	}
}

// closed turns the closing of ch into a value.
func closed(ch <-chan struct{}) <-chan bool {
	out := make(chan bool, 1)
	go func() { <-ch; out <- true }()
	return out
}

func TestTokens(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 7, loop.Config{PanicEnds: true})
	f := bell(t)
	nothing := source(func(sys.Bits) {})
	onloop.Do(t, l, func() {
		tok := add(t, l, f, nothing)
		if _, err := l.Add(f, sys.Readable, nothing); err != sys.EEXIST {
			t.Errorf("added twice: %v; want EEXIST", err)
		}
		if err := l.Detach(tok, f); err != nil {
			t.Errorf("detach: %v", err)
		}
		again := add(t, l, f, nothing) // the kernel has forgotten it
		if again == tok {
			t.Errorf("token %x was given twice", uint64(tok))
		}
		if text := panics(func() { l.Remove(tok) }); !strings.Contains(text, "removed twice") {
			t.Errorf("second removal of a token: %q", text)
		}
		l.Remove(again)
		if text := panics(func() { l.Remove(again) }); !strings.Contains(text, "removed twice") {
			t.Errorf("second removal of the last token: %q", text)
		}
	})
}

// panics returns what fn panics with, as text; "" when it does not.
func panics(fn func()) (text string) {
	defer func() {
		if v := recover(); v != nil {
			text = fmt.Sprint(v)
		}
	}()
	fn()
	return ""
}

// A turn has a fixed order, and what is queued again waits for the next one.
func TestTurnOrder(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 7, loop.Config{PanicEnds: true})
	var (
		got  []string
		done = make(chan struct{})
		f    = bell(t)
	)
	say := func(what string) { got = append(got, what) }
	onloop.Do(t, l, func() {
		add(t, l, f, source(func(sys.Bits) { say("ready") }))
		rounds := 0
		var again runner
		again = func() {
			say("again")
			if rounds++; rounds < 3 {
				l.Again(again) // not in this turn
			} else {
				close(done)
			}
		}
		l.Again(again)
		l.Again(runner(func() { say("second") }))
		l.Flush(runner(func() { say("flush") }))
		l.Post(loop.Func(func() { say("posted") })) // while calls run: next turn
		sys.Signal(f)
		say("call")
	})
	testkit.Receive(t, testkit.Wait, "the third turn", closed(done))
	var all []string
	onloop.Do(t, l, func() { all = slices.Clone(got) })
	want := []string{"call", "flush", "ready", "again", "second", "posted", "again", "again"}
	if !slices.Equal(all, want) {
		t.Errorf("order %v; want %v", all, want)
	}
}

// fired is a Timed made of a function.
type fired func()

func (f fired) Fire() { f() }

func TestTimersOfLoop(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 7, loop.Config{PanicEnds: true})
	type firing struct {
		n  int
		at time.Duration // by the loop's clock, since it was armed
	}
	got := make(chan firing, 10)
	delays := []time.Duration{30 * time.Millisecond, 0, 5 * time.Millisecond, time.Hour, 12 * time.Millisecond}
	timers := make([]loop.Timer, len(delays))
	onloop.Do(t, l, func() {
		for i, d := range delays {
			armed := l.Now()
			l.Arm(&timers[i], d, fired(func() { got <- firing{i, l.Now() - armed} }))
			if left := l.Left(&timers[i]); left < d || left > d+4*time.Millisecond {
				t.Errorf("timer %d has %v left; want %v, rounded up to 4 ms", i, left, d)
			}
		}
		l.Disarm(&timers[4])
		l.Disarm(&timers[4]) // one that is not armed stays so
		if timers[4].Armed() || l.Left(&timers[4]) != 0 {
			t.Error("a timer that was stopped is armed")
		}
	})
	for _, want := range []int{1, 2, 0} {
		f := testkit.Receive(t, testkit.Wait, "a timer", got)
		if f.n != want || f.at < delays[f.n] {
			t.Errorf("timer %d fired after %v; want timer %d, not before %v", f.n, f.at, want, delays[f.n])
		}
	}
	onloop.Do(t, l, func() {
		if len(got) != 0 || !timers[3].Armed() {
			t.Errorf("%d more fired; an hour is armed: %v", len(got), timers[3].Armed())
		}
		l.Disarm(&timers[3])
	})
}

func TestLocal(t *testing.T) {
	l := onloop.Start(t, 7, loop.Config{PanicEnds: true})
	type key struct{}
	onloop.Do(t, l, func() {
		made := 0
		make := func(of *loop.Loop) any { made++; return of }
		first, second := l.Local(key{}, make), l.Local(key{}, make)
		if first != any(l) || second != any(l) || made != 1 {
			t.Errorf("the loop's value was made %d times; want once, for this loop", made)
		}
	})
}

func TestSnapshot(t *testing.T) {
	testkit.NoLeaks(t)
	a, b := onloop.Start(t, 7, loop.Config{PanicEnds: true}), onloop.Start(t, 7, loop.Config{PanicEnds: true})
	onloop.Do(t, a, func() { a.Metrics.Add(metric.UpBytes, 5) })
	sets, err := loop.Snapshot([]*loop.Loop{a, b}, testkit.Wait)
	if err != nil || sets[0].Count(metric.UpBytes) != 5 || sets[1] == nil || sets[1].Count(metric.UpBytes) != 0 {
		t.Errorf("snapshot %v, %v", sets, err)
	}
	onloop.Do(t, a, func() { a.Metrics.Add(metric.UpBytes, 1) })
	if sets[0].Count(metric.UpBytes) != 5 {
		t.Error("a snapshot changes with the loop")
	}

	// One that is busy is reported, and its answer is not used when it comes.
	var gate sync.WaitGroup
	gate.Add(1)
	b.Post(loop.Func(gate.Wait))
	sets, err = loop.Snapshot([]*loop.Loop{a, b}, 20*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "1 of 2 loops") || sets[1] != nil {
		t.Errorf("snapshot with a busy loop: %v, %v; want an error that counts it", sets, err)
	}
	gate.Done()
	onloop.Do(t, b, func() {})
	if sets[1] != nil {
		t.Error("an answer came after the deadline and was used")
	}
}

func TestNewWithoutMemory(t *testing.T) {
	testkit.NoLeaks(t)
	refuse := errors.New("out of memory")
	if l, err := loop.New(0, loop.Config{Memory: func(int) ([]byte, error) { return nil, refuse }}); l != nil || !errors.Is(err, refuse) {
		t.Errorf("got %v, %v; want the allocator's error", l, err)
	}
}
