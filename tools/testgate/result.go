package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// An event is one line of `go test -json` (go doc test2json).
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// A result is what came of the tests of one pass, or of several added up.
type result struct {
	pass                    string
	passed, failed, skipped int
	notes                   []string // one line for each failed, skipped or missing test
	exit                    error    // of the go command

	output map[string]*strings.Builder // of tests that have not passed, by package and name
	seen   map[string]bool             // tests that ran, by package and name
}

func newResult(pass string) result {
	return result{pass: pass, output: map[string]*strings.Builder{}, seen: map[string]bool{}}
}

// line takes one line of the go command's output. What a failed test wrote goes
// to w, and one line for each package.
func (r *result) line(text []byte, w io.Writer) {
	var e event
	if err := json.Unmarshal(text, &e); err != nil {
		fmt.Fprintf(w, "%s\n", text) // not an event: the go command's own words
		return
	}
	key := e.Package + " " + e.Test
	switch e.Action {
	case "output", "build-output":
		if e.Action == "build-output" {
			io.WriteString(w, e.Output)
			return
		}
		b := r.output[key]
		if b == nil {
			b = new(strings.Builder)
			r.output[key] = b
		}
		b.WriteString(e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endPackage(e, w)
			return
		}
		r.seen[key] = true
		r.endTest(e, key, w)
	}
}

func (r *result) endTest(e event, key string, w io.Writer) {
	switch e.Action {
	case "pass":
		r.passed++
		if strings.HasPrefix(e.Test, "TestLab") && e.Elapsed > 10 && !strings.Contains(e.Test, "/") {
			fmt.Fprintf(w, "testgate: slow: %s took %.1f s; a lab test should take at most 10\n", key, e.Elapsed)
		}
	case "fail":
		r.failed++
		r.note("failed", key)
		r.dump(key, w)
	case "skip":
		r.skipped++
		r.note("skipped", key)
		r.dump(key, w)
	}
	delete(r.output, key)
}

// endPackage reports a package. Of one that failed, the output of tests that
// never ended is shown too: a crash or the time-out hit one of them.
func (r *result) endPackage(e event, w io.Writer) {
	for _, key := range slices.Sorted(maps.Keys(r.output)) {
		if key != e.Package+" " && strings.HasPrefix(key, e.Package+" ") {
			if e.Action == "fail" {
				r.failed++
				r.note("did not end", key)
				r.dump(key, w)
			}
			delete(r.output, key)
		}
	}
	if e.Action == "fail" {
		r.dump(e.Package+" ", w)
		r.note("package failed", e.Package)
	}
	delete(r.output, e.Package+" ")
	fmt.Fprintf(w, "%-5s %-8s %s %.1fs\n", map[string]string{"pass": "ok", "fail": "FAIL", "skip": "-"}[e.Action], r.pass, e.Package, e.Elapsed)
}

func (r *result) dump(key string, w io.Writer) {
	if b := r.output[key]; b != nil {
		io.WriteString(w, b.String())
	}
}

func (r *result) note(what, key string) {
	r.notes = append(r.notes, fmt.Sprintf("%s: pass %s: %s", what, r.pass, key))
}

// missing counts as failed each test that the source has and that did not run.
func (r *result) missing(want map[string][]string) {
	for _, dir := range slices.Sorted(maps.Keys(want)) {
		for _, name := range want[dir] {
			if !r.ran(filepath.ToSlash(dir), name) {
				r.failed++
				r.note("did not run", dir+" "+name)
			}
		}
	}
}

func (r *result) ran(dir, name string) bool {
	for key := range r.seen {
		pkg, test, _ := strings.Cut(key, " ")
		if test == name && (strings.HasSuffix(pkg, "/"+dir) || dir == ".") {
			return true
		}
	}
	return false
}

// add sums up o in r.
func (r *result) add(o result) {
	r.passed += o.passed
	r.failed += o.failed
	r.skipped += o.skipped
	r.notes = append(r.notes, o.notes...)
	if o.exit != nil {
		r.exit = errors.Join(r.exit, fmt.Errorf("pass %s: go test: %w", o.pass, o.exit))
	}
}

// report writes the closing lines and returns why the gate stays shut, or nil.
func (r *result) report(w io.Writer, required bool) error {
	for _, n := range r.notes {
		fmt.Fprintln(w, "testgate:", n)
	}
	if r.skipped > 0 && !required {
		fmt.Fprintln(w, "testgate: skipped tests were not needed here; as root, or by `make lab`, they run")
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	switch {
	case r.failed > 0:
		return fmt.Errorf("%d tests failed", r.failed)
	case r.exit != nil:
		return r.exit
	case r.passed == 0:
		return errors.New("no test ran")
	case required && r.skipped > 0:
		return fmt.Errorf("%d tests were skipped, and LAB_REQUIRED is set", r.skipped)
	}
	return nil
}
