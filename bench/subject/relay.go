package subject

import (
	"context"
	"strconv"

	"github.com/sluice-mesh/sluice/bench/lab"
)

// A Relay is one of the bench's own bare relays, a process in each pod.
type Relay struct {
	Engine string // splice, copy or naive
}

// Name is the engine's.
func (r Relay) Name() string { return r.Engine }

// Note says what it is.
func (r Relay) Note() string {
	switch r.Engine {
	case "splice":
		return "a bare epoll loop that splices everything: the limit for bulk"
	case "copy":
		return "a bare epoll loop that reads and writes: the limit for small messages"
	}
	return "two goroutines and io.Copy per connection"
}

// Serves every mode.
func (r Relay) Serves(string) bool { return true }

// Check finds nothing missing: the relays are part of this program.
func (r Relay) Check() error { return nil }

// Start starts one relay in each pod.
func (r Relay) Start(ctx context.Context, at Place) (*Running, error) {
	run := &Running{Name: r.Name()}
	for _, pod := range at.Pods {
		p, err := pod.Start(lab.Program{
			Name: "bare-" + r.Engine, Path: at.Self,
			Args: []string{"bare", "--engine", r.Engine, "--loops", strconv.Itoa(at.Loops)},
		})
		if err != nil {
			return nil, err
		}
		run.processes = append(run.processes, p)
		if err := until(ctx, p, "wait until it listens", func() bool { return p.Logged("ready") }); err != nil {
			return nil, err
		}
	}
	return run, at.capture(ctx, false)
}
