package node

import (
	"context"
	"log/slog"
)

// A fault is a panic that ended one flow only.
type fault struct {
	loop  int
	what  any
	stack []byte
}

// faultsKept is how many faults wait to be logged; sluice_panics_total counts
// those that find no room too.
const faultsKept = 64

// faults carries them from the loops, which don't wait for whoever reads the log.
type faults chan fault

// Panicked takes a fault from a loop, on its thread.
func (f faults) Panicked(loop int, v any, stack []byte) {
	select {
	case f <- fault{loop, v, stack}:
	default:
	}
}

// write tells an operator of faults until ctx ends and none is left.
func (f faults) write(ctx context.Context, log *slog.Logger) {
	for {
		select {
		case one := <-f:
			one.write(log)
		case <-ctx.Done():
			for len(f) > 0 {
				(<-f).write(log)
			}
			return
		}
	}
}

func (f fault) write(log *slog.Logger) {
	log.Error("fault while serving a flow; the flow was ended", "loop", f.loop, "fault", f.what, "stack", string(f.stack))
}
