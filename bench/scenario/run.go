package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sluice-mesh/sluice/bench/report"
	"github.com/sluice-mesh/sluice/bench/subject"
)

// Options say what to run.
type Options struct {
	Scenarios []Scenario
	Paths     []Path
	Modes     []string
	Subjects  []subject.Subject
	Rounds    int
	// Turns above 1 start all subjects of a path and mode at the same time, each in
	// a lab of its own, and measure each scenario so often by turns: what else the
	// machine does hits neighbours alike.
	Turns   int
	Timing  Timing
	Trace   TraceWhen
	Loops   int
	Apart   bool   // keep the subject and the load on different processors
	Bin     string // folder of our programs
	Self    string // this program
	Seed    uint64 // of the order and of the bytes
	Profile Profile
	// Progress is told before each measurement, and once at the end.
	Progress func(Progress)
}

// A Profile has every Sluice profile itself, one start for each scenario.
type Profile struct {
	Kind string // cpu, mem, block, mutex or trace; empty means none
	Dir  string // a folder for each start is made below it
}

// TraceWhen says in which rounds there is a pass under strace.
type TraceWhen string

// The choices.
const (
	TraceNever TraceWhen = "never"
	TraceOnce  TraceWhen = "once" // in the first round
	TraceEach  TraceWhen = "each"
)

func (t TraceWhen) in(round int) bool { return t == TraceEach || t == TraceOnce && round == 0 }

// Progress is how far a run is.
type Progress struct {
	Done, Total int
	Left        time.Duration // as it looks
	Now         report.Key
}

// A block is what is started at the same time: one subject, or with turns all
// those of a path and mode.
type block struct {
	path     Path
	mode     string
	subjects []subject.Subject
}

// runner is a run under way.
type runner struct {
	opt   Options
	out   *report.Run
	start time.Time
	done  int
	total int
	rng   *rand.Rand
}

// Run measures everything and adds it to out. What could not be measured is a
// fault in out, not an error. An error means that nothing can be measured, or
// that ctx ended; what was measured until then is in out.
func Run(ctx context.Context, opt Options, out *report.Run) error {
	blocks, err := plan(opt)
	if err != nil {
		return err
	}
	for _, s := range opt.Scenarios {
		out.Scenarios = append(out.Scenarios, s.Name)
	}
	for _, s := range opt.Subjects {
		out.Subjects = append(out.Subjects, s.Name())
	}
	r := &runner{opt: opt, out: out, start: time.Now(), rng: rand.New(rand.NewPCG(opt.Seed, 3))}
	for _, b := range blocks {
		r.total += opt.Rounds * opt.Turns * len(opt.Scenarios) * len(b.subjects)
	}
	for round := range opt.Rounds {
		for _, b := range shuffle(r.rng, blocks) {
			order := make([]Scenario, len(opt.Scenarios))
			for i, j := range r.rng.Perm(len(order)) {
				order[i] = opt.Scenarios[j]
			}
			for _, part := range r.parts(order) {
				r.block(ctx, b, round, part)
			}
			if ctx.Err() != nil {
				out.Cut = context.Cause(ctx).Error()
				return fmt.Errorf("cut short after %d of %d measurements: %w", r.done, r.total, context.Cause(ctx))
			}
		}
	}
	r.tell(report.Key{})
	return nil
}

// parts divides the scenarios over starts of the subject: one start for all, but
// when profiles are wanted.
func (r *runner) parts(order []Scenario) [][]Scenario {
	if r.opt.Profile.Kind == "" {
		return [][]Scenario{order}
	}
	return slices.Collect(slices.Chunk(order, 1))
}

// plan lists the blocks, and finds out that there are some.
func plan(opt Options) ([]block, error) {
	var faults []error
	if len(opt.Scenarios) == 0 {
		faults = append(faults, errors.New("no scenario"))
	}
	if opt.Rounds < 1 {
		faults = append(faults, fmt.Errorf("%d rounds; want 1 or more", opt.Rounds))
	}
	if opt.Turns < 1 {
		faults = append(faults, fmt.Errorf("%d turns; want 1 or more", opt.Turns))
	}
	if opt.Turns > 1 && opt.Profile.Kind != "" {
		faults = append(faults, errors.New("a profile of subjects that take turns is one of their waiting; want 1 turn"))
	}
	var blocks []block
	for _, p := range opt.Paths {
		for _, m := range opt.Modes {
			var serve []subject.Subject
			for _, s := range opt.Subjects {
				if s.Serves(m) {
					serve = append(serve, s)
				}
			}
			size := 1
			if opt.Turns > 1 {
				size = max(len(serve), 1)
			}
			for together := range slices.Chunk(serve, size) {
				blocks = append(blocks, block{p, m, together})
			}
		}
	}
	if len(blocks) == 0 {
		faults = append(faults, errors.New("no subject serves any of the paths and modes"))
	}
	return blocks, errors.Join(faults...)
}

// shuffle mixes the subjects of each path and mode, which stay together: what the
// machine does besides hits neighbours alike.
func shuffle(rng *rand.Rand, blocks []block) []block {
	type place struct{ path, mode string }
	groups := make(map[place][]block)
	var places []place
	for _, b := range blocks {
		p := place{b.path.Name, b.mode}
		if groups[p] == nil {
			places = append(places, p)
		}
		groups[p] = append(groups[p], b)
	}
	rng.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	mixed := make([]block, 0, len(blocks))
	for _, p := range places {
		g := groups[p]
		rng.Shuffle(len(g), func(i, j int) { g[i], g[j] = g[j], g[i] })
		mixed = append(mixed, g...)
	}
	return mixed
}

func (r *runner) tell(now report.Key) {
	if r.opt.Progress == nil {
		return
	}
	p := Progress{Done: r.done, Total: r.total, Now: now}
	if r.done > 0 {
		p.Left = time.Since(r.start) / time.Duration(r.done) * time.Duration(r.total-r.done)
	}
	r.opt.Progress(p)
}
