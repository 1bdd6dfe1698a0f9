package loop_test

import (
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/measure"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

// repeat measures op: its time, its allocations, and the system calls of the
// loop's thread.
func repeat(b *testing.B, l *loop.Loop, op func()) {
	b.Helper()
	tid := 0
	onloop.Do(b, l, func() { tid = sys.Gettid() })
	b.ReportAllocs()
	for b.Loop() {
		op()
	}
	measure.PerOp(b, tid, op)
}

// BenchmarkWake is a posted call there and its answer back.
func BenchmarkWake(b *testing.B) {
	l := onloop.Start(b, 7, loop.Config{})
	r := &rung{make(chan struct{})}
	repeat(b, l, func() {
		l.Post(r)
		<-r.done
	})
}

// BenchmarkEvent is an edge of a descriptor and its answer back.
func BenchmarkEvent(b *testing.B) {
	l := onloop.Start(b, 7, loop.Config{})
	r := &rung{make(chan struct{})}
	f := bell(b)
	onloop.Do(b, l, func() { add(b, l, f, r) })
	repeat(b, l, func() {
		sys.Signal(f)
		<-r.done
	})
}

// BenchmarkAddRemove is one registration, with what the kernel does for it.
func BenchmarkAddRemove(b *testing.B) {
	l := onloop.Start(b, 7, loop.Config{})
	f := bell(b)
	b.ReportAllocs()
	onloop.Do(b, l, func() {
		op := func() {
			tok, err := l.Add(f, sys.Stream, source(nil))
			if err == nil {
				err = l.Detach(tok, f)
			}
			if err != nil {
				b.Error(err)
			}
		}
		for b.Loop() {
			op()
		}
		measure.PerOp(b, sys.Gettid(), op)
	})
}

// BenchmarkTimers moves one of many timers, as each flow's limit does.
func BenchmarkTimers(b *testing.B) {
	l := onloop.Start(b, 7, loop.Config{})
	timers := make([]loop.Timer, 10_000)
	never := fired(func() {})
	b.ReportAllocs()
	onloop.Do(b, l, func() {
		for i := range timers {
			l.Arm(&timers[i], time.Minute+time.Duration(i)*time.Millisecond, never)
		}
		i := 0
		op := func() {
			l.Arm(&timers[i], time.Minute+time.Duration(i)*time.Millisecond, never)
			i = (i + 7919) % len(timers)
		}
		for b.Loop() {
			op()
		}
		measure.PerOp(b, sys.Gettid(), op)
		for i := range timers {
			l.Disarm(&timers[i])
		}
	})
}
