package scenario_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/bench/report"
	"github.com/sluice-mesh/sluice/bench/scenario"
	"github.com/sluice-mesh/sluice/bench/subject"
)

// options are those of a very short run.
func options(t *testing.T, scenarios, paths []string, subjects ...subject.Subject) scenario.Options {
	t.Helper()
	self := lab.Binary(t, "sluice-bench")
	opt := scenario.Options{
		Modes:    []string{subject.Direct, subject.Redirect},
		Subjects: subjects, Rounds: 1, Turns: 1, Loops: 2, Seed: 1,
		// Long enough for each of the processes on the way to get its turns.
		Timing: scenario.Timing{Warm: 20 * time.Millisecond, Length: 500 * time.Millisecond, Trace: 200 * time.Millisecond},
		Trace:  scenario.TraceNever,
		Bin:    filepath.Dir(self), Self: self,
	}
	for _, s := range scenario.All() {
		if slices.Contains(scenarios, s.Name) {
			opt.Scenarios = append(opt.Scenarios, s)
		}
	}
	for _, p := range scenario.Paths() {
		if slices.Contains(paths, p.Name) {
			opt.Paths = append(opt.Paths, p)
		}
	}
	return opt
}

func peers(t *testing.T, names ...string) []subject.Subject {
	t.Helper()
	var list []subject.Subject
	for _, name := range names {
		p, err := subject.Builtin(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

// clean fails the test on everything that went wrong, and when nothing went.
func clean(t *testing.T, out *report.Run, samples int) {
	t.Helper()
	for _, f := range out.Faults {
		t.Errorf("%v: %s", f.Key, f.Error)
	}
	for _, s := range out.Samples {
		if len(s.Errors) > 0 {
			t.Errorf("%v: errors %v", s.Key, s.Errors)
		}
		// Of other kinds each connection begins an exchange, and one that does not
		// end within a second is an error, whether it fell into the counted time or not.
		if v, bulk := s.Values[report.BytesPerSec]; bulk && v == 0 {
			t.Errorf("%v: nothing got through", s.Key)
		}
		if s.Subject != "wire" && s.Values[report.RSS] == 0 {
			t.Errorf("%v: the subject was not measured", s.Key)
		}
	}
	if len(out.Samples) != samples {
		t.Errorf("%d samples; want %d", len(out.Samples), samples)
	}
}

func noLab(t *testing.T) {
	t.Helper()
	labs, err := lab.Standing()
	if err != nil {
		t.Fatal(err)
	}
	for name, owner := range labs {
		if owner == os.Getpid() {
			t.Errorf("lab %s is still up", name)
		}
	}
}

// Each of our own subjects carries bytes in both modes, and both ways of capture.
func TestLabOwnSubjects(t *testing.T) {
	lab.Require(t)
	out := new(report.Run)
	opt := options(t, []string{"bulk-1-down", "churn-32-client"}, []string{"node"},
		subject.Wire{}, subject.Relay{Engine: "splice"}, subject.Relay{Engine: "copy"}, subject.Relay{Engine: "naive"}, subject.Sluice{})
	if err := scenario.Run(t.Context(), opt, out); err != nil {
		t.Fatal(err)
	}
	clean(t, out, 2*2*5)
	noLab(t)
}

// The peers carry bytes, too. nginx and HAProxy leave the source port to the
// kernel, which is why their flows may stall: out only, with few connections.
func TestLabPeers(t *testing.T) {
	lab.Require(t)
	mine, err := subject.ParsePeer("mine=/usr/sbin/haproxy") // a user's own
	if err != nil {
		t.Fatal(err)
	}
	out := new(report.Run)
	opt := options(t, []string{"bulk-1-up", "rr-1-100"}, []string{"out"}, append(peers(t, "haproxy", "haproxy-own", "nginx", "nginx-own"), mine)...)
	if err := scenario.Run(t.Context(), opt, out); err != nil {
		t.Fatal(err)
	}
	clean(t, out, 2*5)
}

// System calls are counted: a bare copy loop makes one read and one write for
// each message, both ways, and little else.
func TestLabCallsAreCounted(t *testing.T) {
	lab.Require(t)
	out := new(report.Run)
	opt := options(t, []string{"rr-1-100"}, []string{"out"}, subject.Relay{Engine: "copy"})
	opt.Modes, opt.Trace = []string{subject.Direct}, scenario.TraceOnce
	opt.Timing.Trace = 300 * time.Millisecond
	if err := scenario.Run(t.Context(), opt, out); err != nil {
		t.Fatal(err)
	}
	clean(t, out, 1)
	if len(out.Samples) == 1 {
		if got := out.Samples[0].Values[report.CallsPerExch]; got < 4 || got > 5 {
			t.Errorf("%v calls per exchange; want 4 and a little", got)
		}
	}
}

// A run that is cut keeps what it measured, and takes its lab down.
func TestLabCutRunKeepsSamples(t *testing.T) {
	lab.Require(t)
	out := new(report.Run)
	opt := options(t, []string{"rr-1-100", "rr-1-1"}, []string{"out"}, subject.Relay{Engine: "copy"})
	opt.Rounds = 100
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("somebody pressed a key")
	opt.Progress = func(p scenario.Progress) {
		if p.Done == 3 {
			cancel(stop)
		}
	}
	if err := scenario.Run(ctx, opt, out); !errors.Is(err, stop) {
		t.Errorf("error is %v; want the cause", err)
	}
	if len(out.Samples) != 3 || out.Cut != stop.Error() || len(out.Faults) > 0 {
		t.Errorf("%d samples, cut by %q, faults %v; want 3, the cause and none", len(out.Samples), out.Cut, out.Faults)
	}
	noLab(t)
}

// Subjects that take turns all stand at the same time, and each turn has one sample
// of each.
func TestLabTurns(t *testing.T) {
	lab.Require(t)
	out := new(report.Run)
	opt := options(t, []string{"rr-1-100"}, []string{"out"}, subject.Relay{Engine: "copy"}, subject.Sluice{})
	opt.Modes, opt.Rounds, opt.Turns = []string{subject.Direct}, 2, 2
	if err := scenario.Run(t.Context(), opt, out); err != nil {
		t.Fatal(err)
	}
	clean(t, out, 2*2*2)
	type turn struct {
		key   report.Key
		round int
	}
	seen := make(map[turn]bool)
	for _, s := range out.Samples {
		seen[turn{s.Key, s.Round}] = true
		if s.Subject == "sluice" && s.Values[report.RSS] == 0 {
			t.Errorf("%v was not measured", s.Key)
		}
	}
	if len(seen) != len(out.Samples) {
		t.Errorf("%d samples have %d keys and turns; want as many", len(out.Samples), len(seen))
	}
	noLab(t)
}

// mortal is a subject that is killed soon after its start.
type mortal struct{ subject.Relay }

func (m mortal) Start(ctx context.Context, at subject.Place) (*subject.Running, error) {
	run, err := m.Relay.Start(ctx, at)
	if err == nil {
		time.AfterFunc(150*time.Millisecond, func() {
			_ = run.Signal(func(p *lab.Process) error { return p.Signal(lab.SIGKILL) })
		})
	}
	return run, err
}

func TestLabSubjectThatDies(t *testing.T) {
	lab.Require(t)
	out := new(report.Run)
	opt := options(t, []string{"rr-1-100", "bulk-1-up"}, []string{"out"}, mortal{subject.Relay{Engine: "copy"}}, subject.Wire{})
	opt.Modes = []string{subject.Direct}
	opt.Timing.Length = time.Second
	if err := scenario.Run(t.Context(), opt, out); err != nil {
		t.Fatal(err)
	}
	if len(out.Samples) != 2 || len(out.Faults) != 2 {
		t.Fatalf("%d samples and %d faults; want those of the wire, and one for each scenario", len(out.Samples), len(out.Faults))
	}
	for _, f := range out.Faults {
		if f.Subject != "copy" || !strings.Contains(f.Error, "copy died: ended by killed") {
			t.Errorf("fault is %+v; want one that says how it died", f)
		}
	}
	noLab(t)
}

func TestLabSubjectThatDoesNotStart(t *testing.T) {
	lab.Require(t)
	missing, err := subject.ParsePeer("mine=/nowhere/haproxy")
	if err != nil {
		t.Fatal(err)
	}
	broken, err := subject.ParsePeer("broken=/bin/false,testdata/broken.json")
	if err != nil {
		t.Fatal(err)
	}
	out := new(report.Run)
	opt := options(t, []string{"rr-1-100"}, []string{"out"}, missing, broken, subject.Wire{})
	if err := scenario.Run(t.Context(), opt, out); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"mine": "install haproxy", "broken": "broken does not start: exit status 1"}
	for _, f := range out.Faults {
		if text := want[f.Subject]; text == "" || !strings.Contains(f.Error, text) {
			t.Errorf("fault is %+v; want %q in it", f, text)
		}
	}
	if len(out.Samples) != 2 || len(out.Faults) != 2 {
		t.Errorf("%d samples and %d faults; want two of the wire, and one for each that does not start", len(out.Samples), len(out.Faults))
	}
	noLab(t)
}
