package main

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// play feeds events to a fresh result, as `go test -json` would.
func play(events ...string) (*result, string) {
	r := newResult("lab")
	var w strings.Builder
	for _, e := range events {
		r.line([]byte(e), &w)
	}
	return &r, w.String()
}

func ev(action, pkg, test, output string) string {
	return `{"Action":"` + action + `","Package":"m/` + pkg + `","Test":"` + test + `","Output":"` + output + `"}`
}

func TestGateShutsAndOpens(t *testing.T) {
	want := map[string][]string{"a": {"TestLabOne"}}
	for _, tt := range []struct {
		name     string
		events   []string
		exit     error
		required bool
		line     string // the closing line
		err      string // part of the error; "" for an open gate
	}{
		{"passes", []string{ev("pass", "a", "TestLabOne", "")}, nil, true, "1 passed, 0 failed, 0 skipped", ""},
		{"fails", []string{ev("fail", "a", "TestLabOne", "")}, nil, false, "0 passed, 1 failed, 0 skipped", "1 tests failed"},
		{"skip is no pass", []string{ev("skip", "a", "TestLabOne", ""), ev("pass", "a", "TestLabOne/x", "")}, nil, true, "1 passed, 0 failed, 1 skipped", "LAB_REQUIRED"},
		{"skip allowed", []string{ev("skip", "a", "TestLabOne", ""), ev("pass", "a", "TestLabOne/x", "")}, nil, false, "1 passed, 0 failed, 1 skipped", ""},
		{"only skips", []string{ev("skip", "a", "TestLabOne", "")}, nil, false, "0 passed, 0 failed, 1 skipped", "no test ran"},
		{"did not run", []string{ev("pass", "b", "TestLabOne", "")}, nil, false, "1 passed, 1 failed, 0 skipped", "1 tests failed"},
		{"crash", []string{ev("output", "a", "TestLabOne", "boom"), ev("fail", "a", "", "")}, nil, false, "0 passed, 2 failed, 0 skipped", "2 tests failed"},
		{"does not build", []string{ev("pass", "a", "TestLabOne", "")}, errors.New("exit status 1"), false, "1 passed, 0 failed, 0 skipped", "pass lab: go test: exit status 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, _ := play(tt.events...)
			r.exit = tt.exit
			r.missing(want)
			var all result
			all.add(*r)
			var w strings.Builder
			err := all.report(&w, tt.required)
			if !strings.HasSuffix(w.String(), tt.line+"\n") {
				t.Errorf("report %q; want it to end in %q", w.String(), tt.line)
			}
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error %v; want %q", err, tt.err)
			}
		})
	}
}

func TestOutputOfFailuresOnly(t *testing.T) {
	_, text := play(
		ev("output", "a", "TestGood", "quiet"), ev("pass", "a", "TestGood", ""),
		ev("output", "a", "TestBad", "loud"), ev("fail", "a", "TestBad", ""),
		ev("fail", "a", "", ""), "words of the go command")
	if strings.Contains(text, "quiet") || !strings.Contains(text, "loud") || !strings.Contains(text, "FAIL  lab      m/a") || !strings.Contains(text, "words of the go command") {
		t.Errorf("report %q", text)
	}
}

// tree writes Go test files into a fresh directory and enters it.
func tree(t *testing.T, files map[string]string) []testFile {
	t.Chdir(t.TempDir())
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	source, err := readSource(".")
	if err != nil {
		t.Fatal(err)
	}
	return source
}

func TestEachTestIsInItsPasses(t *testing.T) {
	source := tree(t, map[string]string{
		"a/a_test.go":          "package a; func TestMain(m int) {}; func TestX(t int) {}; func TestFlowBudget(t int) {}; func FuzzZ(f int) {}; func TestNot() {}",
		"a/lab_test.go":        "package a; func TestLabX(t int) {}; func TestLabBudgetX(t int) {}",
		"a/checked_test.go":    "//go:build checked\n\npackage a; func TestChecked(t int) {}",
		"a/race_test.go":       "//go:build race\n\npackage a; func TestRace(t int) {}",
		"a/testdata/x_test.go": "package a; func TestData(t int) {}",
	})
	for name, want := range map[string][]string{
		"race":    {"FuzzZ", "TestRace", "TestX"},
		"checked": {"FuzzZ", "TestChecked", "TestX"},
		"lab":     {"TestLabX"},
		"plain":   {"TestFlowBudget", "TestLabBudgetX"},
	} {
		p, ok := findPass(name)
		if !ok {
			t.Fatalf("no pass %s", name)
		}
		got, err := p.tests(source)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got["a"], want) {
			t.Errorf("pass %s runs %v; want %v", name, got["a"], want)
		}
	}
}

func TestNarrow(t *testing.T) {
	p, _ := findPass("lab")
	got, err := p.narrow(map[string][]string{"a": {"TestLabX", "TestLabY"}, "b": {"TestLabZ"}}, "X|W")
	if err != nil || len(got) != 1 || p.run != "^(TestLabX)$" {
		t.Errorf("tests %v, run %q, error %v", got, p.run, err)
	}
}

func TestRaceOptionsOfTheUserWin(t *testing.T) {
	for own, want := range map[string]string{
		"":                                     "GORACE=atexit_sleep_ms=20",
		"halt_on_error=1 atexit_sleep_ms=1000": "GORACE=atexit_sleep_ms=20 halt_on_error=1 atexit_sleep_ms=1000",
	} {
		if got := raceOptions(own); got != want {
			t.Errorf("options %q; want %q", got, want)
		}
	}
}

func TestFuzzTargetNeedsCorpus(t *testing.T) {
	source := tree(t, map[string]string{"a/fuzz_test.go": "package a; func FuzzZ(f int) {}"})
	err := fuzzAll(t.Context(), source, time.Second)
	if err == nil || !strings.Contains(err.Error(), "has no corpus in testdata/fuzz/FuzzZ") {
		t.Errorf("error %v", err)
	}
}
