package loop_test

import (
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// report adds the system calls per operation, in builds that count them.
func report(b *testing.B, before uint64) {
	if sys.Checked {
		b.ReportMetric(float64(sys.Calls()-before)/float64(b.N), "syscalls/op")
	}
}

// BenchmarkWake is a posted call there and its answer back.
func BenchmarkWake(b *testing.B) {
	l := start(b, loop.Config{})
	r := &rung{make(chan struct{})}
	b.ReportAllocs()
	before := sys.Calls()
	for b.Loop() {
		l.Post(r)
		<-r.done
	}
	report(b, before)
}

// BenchmarkEvent is an edge of a descriptor and its answer back.
func BenchmarkEvent(b *testing.B) {
	l := start(b, loop.Config{})
	r := &rung{make(chan struct{})}
	f := bell(b)
	do(b, l, func() { add(b, l, f, r) })
	b.ReportAllocs()
	before := sys.Calls()
	for b.Loop() {
		sys.Signal(f)
		<-r.done
	}
	report(b, before)
}

// BenchmarkAddRemove is one registration, with what the kernel does for it.
func BenchmarkAddRemove(b *testing.B) {
	l := start(b, loop.Config{})
	f := bell(b)
	b.ReportAllocs()
	do(b, l, func() {
		before := sys.Calls()
		for b.Loop() {
			tok, err := l.Add(f, sys.Stream, source(nil))
			if err != nil {
				b.Error(err)
				return
			}
			if err := l.Detach(tok, f); err != nil {
				b.Error(err)
				return
			}
		}
		report(b, before)
	})
}

// BenchmarkTimers moves one of many timers, as each flow's limit does.
func BenchmarkTimers(b *testing.B) {
	l := start(b, loop.Config{})
	timers := make([]loop.Timer, 10_000)
	never := fired(func() {})
	b.ReportAllocs()
	do(b, l, func() {
		for i := range timers {
			l.Arm(&timers[i], time.Minute+time.Duration(i)*time.Millisecond, never)
		}
		i := 0
		for b.Loop() {
			l.Arm(&timers[i], time.Minute+time.Duration(i)*time.Millisecond, never)
			i = (i + 7919) % len(timers)
		}
		for i := range timers {
			l.Disarm(&timers[i])
		}
	})
}
