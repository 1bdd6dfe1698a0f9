package loop_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

// victim is served at every place of a turn, says so, and panics if it is bad.
type victim struct {
	name  string
	bad   bool
	timer loop.Timer
	told  *[]string
}

func (v *victim) serve() {
	if v.bad {
		panic(v.name + " is bad")
	}
	*v.told = append(*v.told, v.name)
}

func (v *victim) Ready(sys.Bits) { v.serve() }
func (v *victim) Run()           { v.serve() }
func (v *victim) Call()          { v.serve() }
func (v *victim) Fire()          { v.serve() }
func (v *victim) Panicked(what any) {
	*v.told = append(*v.told, v.name+" ended: "+what.(string))
}

// logged keeps the texts of contained faults.
type logged struct{ texts []string }

func (l *logged) Panicked(id int, v any, stack []byte) {
	l.texts = append(l.texts, v.(string))
	if id != 7 || !strings.Contains(string(stack), "(*victim).serve") {
		l.texts = append(l.texts, "without loop or stack")
	}
}

// A fault ends what was being served, and nothing else: all that was to be done
// in the same turn is done.
func TestPanicEndsItsFlowOnly(t *testing.T) {
	testkit.NoLeaks(t)
	for _, place := range []struct {
		name  string
		queue func(t *testing.T, l *loop.Loop, v *victim)
	}{
		{"ready source", func(t *testing.T, l *loop.Loop, v *victim) {
			f := bell(t)
			add(t, l, f, v)
			sys.Signal(f)
		}},
		{"run-again queue", func(_ *testing.T, l *loop.Loop, v *victim) { l.Again(v) }},
		{"posted call", func(_ *testing.T, l *loop.Loop, v *victim) { l.Post(v) }},
		{"timer", func(_ *testing.T, l *loop.Loop, v *victim) { l.Arm(&v.timer, 0, v) }},
		{"flush", func(_ *testing.T, l *loop.Loop, v *victim) { l.Flush(v) }},
	} {
		t.Run(place.name, func(t *testing.T) {
			var log logged
			l := onloop.Start(t, 7, loop.Config{Log: &log})
			var told []string
			onloop.Do(t, l, func() {
				for _, v := range []*victim{{name: "a"}, {name: "b", bad: true}, {name: "c"}, {name: "d", bad: true}, {name: "e"}} {
					v.told = &told
					place.queue(t, l, v)
				}
			})
			testkit.Eventually(t, testkit.Wait, "all five are served", func() (all bool) {
				onloop.Do(t, l, func() { all = len(told) >= 5 })
				return all
			})
			onloop.Do(t, l, func() {
				slices.Sort(told)
				want := []string{"a", "b ended: b is bad", "c", "d ended: d is bad", "e"}
				if !slices.Equal(told, want) {
					t.Errorf("told %q; want %q", told, want)
				}
				slices.Sort(log.texts)
				if !slices.Equal(log.texts, []string{"b is bad", "d is bad"}) {
					t.Errorf("logged %q", log.texts)
				}
				if n := l.Metrics.Count(metric.Panics); n != 2 {
					t.Errorf("%d panics counted; want 2", n)
				}
			})
		})
	}
}

// What can't be ended by itself, and every fault in builds for tests, is not
// contained.
func TestPanicThatEndsTheLoop(t *testing.T) {
	testkit.NoLeaks(t)
	for _, tt := range []struct {
		name string
		cfg  loop.Config
		call loop.Call
	}{
		{"nobody to blame", loop.Config{}, loop.Func(func() { panic("v is bad") })},
		{"in tests", loop.Config{PanicEnds: true}, &victim{name: "v", bad: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.Memory = onloop.Heap
			l, err := loop.New(0, tt.cfg)
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan any, 1)
			go func() {
				defer func() { ended <- recover() }()
				l.Run()
			}()
			l.Post(tt.call)
			if v := testkit.Receive(t, testkit.Wait, "the loop ends", ended); v != "v is bad" {
				t.Errorf("the loop ended with %v; want the fault", v)
			}
		})
	}
}
