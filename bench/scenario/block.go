package scenario

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/sluice-mesh/sluice/bench/report"
	"github.com/sluice-mesh/sluice/bench/subject"
)

// A stand is one subject at work in a lab of its own.
type stand struct {
	runner  *runner
	block   block
	subject subject.Subject
	round   int
	ground  *ground
	running *subject.Running // nil when it does not serve (any more)
}

// block starts the subjects and measures every scenario.
func (r *runner) block(ctx context.Context, b block, round int, order []Scenario) {
	if ctx.Err() != nil {
		return
	}
	stands := make([]*stand, 0, len(b.subjects))
	for _, s := range b.subjects {
		st := &stand{runner: r, block: b, subject: s, round: round}
		r.tell(st.key(order[0]))
		if err := st.start(ctx, order[0]); err != nil {
			st.fault(ctx, order, r.opt.Turns, err)
		}
		stands = append(stands, st)
	}
	for i := range order {
		for turn := range r.opt.Turns {
			for _, j := range r.rng.Perm(len(stands)) {
				stands[j].measure(ctx, order[i:], turn)
			}
		}
	}
	for _, st := range stands {
		if err := st.close(); err != nil {
			r.done--
			st.fault(ctx, order[:1], 1, err)
		}
	}
}

func (st *stand) key(s Scenario) report.Key {
	return report.Key{Scenario: s.Name, Path: st.block.path.Name, Mode: st.block.mode, Subject: st.subject.Name()}
}

// fault notes that scenarios, of which so many turns of the first are left, were
// not measured.
func (st *stand) fault(ctx context.Context, left []Scenario, turns int, err error) {
	r := st.runner
	if ctx.Err() != nil {
		return // what fails because the run is cut is no fault of the subject
	}
	for i, s := range left {
		r.out.Faults = append(r.out.Faults, report.Fault{Key: st.key(s), Round: st.round, Error: err.Error()})
		if i > 0 {
			turns = r.opt.Turns
		}
		r.done += turns
	}
}

// start builds a fresh lab, so that no TIME_WAIT, route or rule of the subject
// before is in it, and starts the subject.
func (st *stand) start(ctx context.Context, first Scenario) error {
	r, b := st.runner, st.block
	g, err := b.path.build()
	if err != nil {
		return err
	}
	st.ground = g
	r.out.Facts.Congestion = g.lab.Tuning.Congestion
	place := subject.Place{Lab: g.lab, Pods: g.pods, Mode: b.mode, Loops: r.opt.Loops, Bin: r.opt.Bin, Self: r.opt.Self}
	if p := r.opt.Profile; p.Kind != "" {
		place.Profile = p.Kind
		place.ProfileDir = filepath.Join(p.Dir, fmt.Sprintf("%s_%s_%s_%s_%d", first.Name, b.path.Name, b.mode, st.subject.Name(), st.round))
	}
	if st.running, err = st.subject.Start(ctx, place); err != nil {
		return err
	}
	if b.mode == subject.Redirect {
		// With several ports of the server some connections hung, whatever the
		// subject: perhaps because two from one source port become the same tuple
		// once both are redirected. So there is one port for everybody.
		st.running.OnePort = true
	}
	return nil
}

// close ends the subject and takes its lab down.
func (st *stand) close() error {
	if st.running != nil {
		st.running.Stop()
	}
	if st.ground == nil {
		return nil
	}
	return st.ground.lab.Close()
}

// measure takes one turn of the first scenario of those left.
func (st *stand) measure(ctx context.Context, left []Scenario, turn int) {
	r := st.runner
	if ctx.Err() != nil || st.running == nil {
		return
	}
	s := left[0]
	r.tell(st.key(s))
	m := measurement{runner: r, ground: st.ground, subject: st.running, scenario: s}
	sample, err := m.take(ctx, turn == 0 && r.opt.Trace.in(st.round))
	if ctx.Err() != nil {
		return // half a measurement is none
	}
	if err != nil {
		if alive := st.running.Alive(); alive != nil {
			st.fault(ctx, left, r.opt.Turns-turn, alive)
			st.running.Stop()
			st.running = nil
			return
		}
		st.fault(ctx, left[:1], 1, err)
		return
	}
	sample.Key, sample.Round = st.key(s), st.round*r.opt.Turns+turn
	r.out.Samples = append(r.out.Samples, *sample)
	r.done++
}
