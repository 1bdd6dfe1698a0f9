package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A pass runs one kind of tests in one kind of build.
type pass struct {
	name    string
	run     string   // regexp that a test's name must match
	skip    string   // and one that it must not
	race    bool     // build with the race detector
	tags    []string // and with these tags
	count   int      // how often
	alone   bool     // one package at a time: others would disturb the figures
	timeout time.Duration
	bin     string // where tests find the programs that they start
}

// passes is the whole plan. A test is in exactly the passes that it is for, so
// none has a reason to skip.
func passes() []pass {
	const special = "^TestLab|Budget"
	return []pass{
		{name: "race", run: "^(Test|Fuzz|Example)", skip: special, race: true, count: 2, timeout: 3 * time.Minute, bin: "bin/checked"},
		{name: "checked", run: "^(Test|Fuzz|Example)", skip: special, tags: []string{"checked"}, count: 1, timeout: 3 * time.Minute, bin: "bin/checked"},
		{name: "lab", run: "^TestLab", skip: "Budget", race: true, tags: []string{"checked"}, count: 1, alone: true, timeout: 6 * time.Minute, bin: "bin/checked"},
		{name: "plain", run: "^Test.*Budget", count: 1, alone: true, timeout: 5 * time.Minute, bin: "bin"},
	}
}

func findPass(name string) (pass, bool) {
	for _, p := range passes() {
		if p.name == name {
			return p, true
		}
	}
	return pass{}, false
}

// tests returns, by directory, the tests that this pass must run.
func (p pass) tests(source []testFile) (map[string][]string, error) {
	run, skip := regexp.MustCompile(p.run), regexp.MustCompile(cmp.Or(p.skip, "^$"))
	tags := p.tags
	if p.race {
		tags = append(slices.Clone(tags), "race")
	}
	return find(source, tags, func(name string) bool {
		return (strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz")) &&
			run.MatchString(name) && !skip.MatchString(name)
	})
}

// narrow keeps the tests whose name matches only, too, and makes the pass run
// exactly these.
func (p *pass) narrow(want map[string][]string, only string) (map[string][]string, error) {
	re, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	kept, names := map[string][]string{}, map[string]bool{}
	for dir, tests := range want {
		for _, name := range tests {
			if re.MatchString(name) {
				kept[dir] = append(kept[dir], name)
				names[name] = true
			}
		}
	}
	p.run, p.skip = "^("+strings.Join(slices.Sorted(maps.Keys(names)), "|")+")$", ""
	return kept, nil
}

// args are the arguments of the go command for the packages in dirs.
func (p pass) args(seed int64, dirs []string) []string {
	args := []string{"test", "-json", "-vet=off",
		fmt.Sprintf("-shuffle=%d", seed), fmt.Sprintf("-count=%d", p.count),
		"-timeout=" + p.timeout.String(), "-run=" + p.run}
	if p.skip != "" {
		args = append(args, "-skip="+p.skip)
	}
	if p.race {
		args = append(args, "-race")
	}
	if len(p.tags) > 0 {
		args = append(args, "-tags="+strings.Join(p.tags, ","))
	}
	if p.alone {
		args = append(args, "-p=1")
	}
	for _, dir := range dirs {
		args = append(args, "./"+filepath.ToSlash(dir))
	}
	return args
}

// execute runs the pass and reports what came of each of its tests.
func (p pass) execute(ctx context.Context, source []testFile, opt options) (result, error) {
	if opt.timeout > 0 {
		p.timeout = opt.timeout
	}
	want, err := p.tests(source)
	if err != nil {
		return result{}, err
	}
	if opt.run != "" {
		if want, err = p.narrow(want, opt.run); err != nil {
			return result{}, err
		}
	}
	r := newResult(p.name)
	if len(want) == 0 {
		fmt.Printf("testgate: pass %s: no tests of this kind\n", p.name)
		return r, nil
	}
	bin, err := filepath.Abs(p.bin)
	if err != nil {
		return result{}, err
	}
	cmd := exec.CommandContext(ctx, "go", p.args(opt.seed, slices.Sorted(maps.Keys(want)))...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second // tests take their labs down
	cmd.Env = append(os.Environ(), "SLUICE_BIN="+bin, "SLUICE_PASS="+p.name, raceOptions(os.Getenv("GORACE")))
	cmd.Stderr = os.Stderr
	fmt.Printf("testgate: pass %s: go %s\n", p.name, strings.Join(cmd.Args[1:], " "))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return result{}, err
	}
	if err := cmd.Start(); err != nil {
		return result{}, err
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		r.line(lines.Bytes(), os.Stdout)
	}
	if err := lines.Err(); err != nil {
		return result{}, fmt.Errorf("events of go test: %w", err)
	}
	r.exit = cmd.Wait()
	r.missing(want)
	return r, ctx.Err()
}

// raceOptions is the environment variable of the race detector with the user's
// own options last, which win. By default a program that it watches sleeps for a
// second before it exits, in case a goroutine is left that has a race to show.
// Ours leave none (style rule 14), and a lab test starts many programs.
func raceOptions(own string) string {
	return strings.TrimSuffix("GORACE=atexit_sleep_ms=20 "+own, " ")
}
