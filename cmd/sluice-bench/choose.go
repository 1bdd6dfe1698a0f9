package main

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/sluice-mesh/sluice/bench/scenario"
	"github.com/sluice-mesh/sluice/bench/subject"
)

func allModes() []string { return []string{subject.Direct, subject.Redirect} }

// builtinSubjects are the subjects that need no flag.
func builtinSubjects() ([]subject.Subject, error) {
	list := []subject.Subject{
		subject.Wire{},
		subject.Relay{Engine: "splice"}, subject.Relay{Engine: "copy"}, subject.Relay{Engine: "naive"},
		subject.Sluice{},
	}
	for _, name := range []string{"haproxy", "haproxy-own", "nginx", "nginx-own"} {
		p, err := subject.Builtin(name)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// pick keeps what one of the patterns matches (path.Match); no pattern keeps all.
// A pattern that matches nothing is a mistake.
func pick[T any](what string, all []T, name func(T) string, patterns []string) ([]T, error) {
	if len(patterns) == 0 {
		return all, nil
	}
	used := make([]bool, len(patterns))
	var list []T
	for _, x := range all {
		keep := false
		for i, p := range patterns {
			if ok, err := path.Match(p, name(x)); err != nil {
				return nil, fmt.Errorf("--%s %q: %w", what, p, err)
			} else if ok {
				keep, used[i] = true, true
			}
		}
		if keep {
			list = append(list, x)
		}
	}
	var faults []error
	for i, p := range patterns {
		if !used[i] {
			var names []string
			for _, x := range all {
				names = append(names, name(x))
			}
			faults = append(faults, fmt.Errorf("--%s %q matches none of %s", what, p, strings.Join(names, ", ")))
		}
	}
	return list, errors.Join(faults...)
}

// chosen turns the flags into what is to be run.
func (f *runFlags) chosen() (scenario.Options, error) {
	var opt scenario.Options
	var faults []error
	fault := func(err error) { faults = append(faults, err) }
	var err error

	scenarios := scenario.All()
	if f.quick && len(f.scenarios) == 0 {
		scenarios = slices.DeleteFunc(scenarios, func(s scenario.Scenario) bool { return !s.Quick })
	}
	opt.Scenarios, err = pick("scenario", scenarios, func(s scenario.Scenario) string { return s.Name }, f.scenarios)
	fault(err)

	paths := scenario.Paths()
	if f.quick && len(f.paths) == 0 {
		paths = slices.DeleteFunc(paths, func(p scenario.Path) bool { return !p.Quick })
	}
	opt.Paths, err = pick("path", paths, func(p scenario.Path) string { return p.Name }, f.paths)
	fault(err)

	opt.Modes, err = pick("mode", allModes(), func(s string) string { return s }, f.modes)
	fault(err)

	subjects, err := builtinSubjects()
	fault(err)
	for _, text := range f.builds {
		name, dir, ok := strings.Cut(text, "=")
		if !ok || name == "" || dir == "" {
			fault(fmt.Errorf("--build %q; want NAME=FOLDER", text))
			continue
		}
		subjects = append(subjects, subject.Sluice{Label: name, Bin: dir})
	}
	for _, text := range f.peers {
		p, err := subject.ParsePeer(text)
		if err != nil {
			fault(err)
			continue
		}
		subjects = append(subjects, p)
	}
	names := make(map[string]bool)
	for _, s := range subjects {
		if names[s.Name()] {
			fault(fmt.Errorf("two subjects are named %q", s.Name()))
		}
		names[s.Name()] = true
	}
	opt.Subjects, err = pick("subject", subjects, subject.Subject.Name, f.subjects)
	fault(err)
	if f.profile != "" && !slices.Contains([]string{"cpu", "mem", "block", "mutex", "trace"}, f.profile) {
		fault(fmt.Errorf("--profile %q; want cpu, mem, block, mutex or trace", f.profile))
	}
	opt.Trace = scenario.TraceWhen(f.strace)
	if !slices.Contains([]scenario.TraceWhen{scenario.TraceNever, scenario.TraceOnce, scenario.TraceEach}, opt.Trace) {
		fault(fmt.Errorf("--strace %q; want %s, %s or %s", f.strace, scenario.TraceNever, scenario.TraceOnce, scenario.TraceEach))
	}
	opt.Rounds, opt.Turns, opt.Loops, opt.Seed = f.rounds, f.turns, f.loops, f.seed
	opt.Timing = scenario.Timing{Warm: f.warm, Length: f.length, Trace: f.length / 2}
	return opt, errors.Join(faults...)
}
