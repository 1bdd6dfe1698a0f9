package loop

import (
	"fmt"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/metric"
)

// Snapshot asks every loop for its counters; from any goroutine but a loop's. A
// loop that has not answered within limit is reported as such, never guessed:
// its place is nil.
func Snapshot(loops []*Loop, limit time.Duration) ([]*metric.Set, error) {
	out := make([]*metric.Set, len(loops))
	err := Ask(loops, limit, func(i int, l *Loop) func() {
		set := l.Metrics
		return func() { out[i] = &set }
	})
	return out, err
}

// Ask has question called on every loop, and what it returns called in turn on
// the caller's goroutine when the loop has answered.
func Ask(loops []*Loop, limit time.Duration, question func(i int, l *Loop) (answer func())) error {
	answers := make(chan func(), len(loops))
	for i, l := range loops {
		if !l.Post(Func(func() { answers <- question(i, l) })) {
			answers <- func() {}
		}
	}
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for n := range loops {
		select {
		case a := <-answers:
			a()
		case <-deadline.C:
			return fmt.Errorf("%d of %d loops did not answer within %v", len(loops)-n, len(loops), limit)
		}
	}
	return nil
}
