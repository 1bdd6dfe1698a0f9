package loop

import (
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/measure"
)

// BenchmarkFire arms a timer and turns the wheel until it fires, by a clock of
// its own.
func BenchmarkFire(b *testing.B) {
	var (
		w wheel
		n numbered
	)
	n.what = &n
	now := time.Duration(0)
	b.ReportAllocs()
	op := func() {
		n.tick = uint64((now + 10*time.Second) / tickTime)
		w.insert(&n.Timer)
		now += 10 * time.Second
		if w.next(now) == nil {
			b.Fatal("not on time")
		}
	}
	for b.Loop() {
		op()
	}
	measure.PerOp(b, 0, op)
}
