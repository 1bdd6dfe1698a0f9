package session

import (
	"time"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
)

// List asks every loop for at most limit flows each; from any goroutine but a
// loop's.
func (e *Env) List(limit int, patience time.Duration) ([]flow.Info, error) {
	var all []flow.Info
	err := loop.Ask(e.loops, patience, func(_ int, l *loop.Loop) func() {
		here := Here(l, limit)
		return func() { all = append(all, here...) }
	})
	return all, err
}

// Here lists at most limit flows of l, to which it must be called.
func Here(l *loop.Loop, limit int) []flow.Info {
	var here []flow.Info
	for s := local(l).first; s != nil && len(here) < limit; s = s.next {
		here = append(here, s.info())
	}
	return here
}

func (s *Session) info() flow.Info {
	i := flow.Info{
		ID: s.id, Pod: s.pod.Info, Path: s.path, Tuple: s.tuple, Upstream: s.to, Source: s.source,
		State: s.state.String(), Loop: s.loop.ID(), Age: s.loop.Now() - s.began, Counts: s.pair.Counts(),
	}
	i.UpSplicing, i.DownSplicing = s.pair.Splicing()
	i.UpEnded, i.DownEnded = s.pair.HalfClosed()
	i.UpHeld, i.DownHeld = s.server.Unsent(), s.client.Unsent()
	i.UpPipe, i.DownPipe = s.pair.InPipe()
	return i
}
