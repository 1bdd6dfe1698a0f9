package report

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"

	"github.com/sluice-mesh/sluice/internal/testkit"
)

func example() *Run {
	r := &Run{Facts: Facts{
		Time: "2026-11-30T12:00:00Z", Command: "sluice-bench run", Commit: "0123456789ab", Go: "go1.26.8", CPU: "Some CPU", Cores: 2,
		Governor: "performance", Memory: 8 << 30, Kernel: "6.18", Congestion: "cubic", Loops: 2,
	}}
	for round := range 6 {
		for i, name := range []string{"wire", "sluice"} {
			r.Samples = append(r.Samples, Sample{
				Key:   Key{"bulk-1-up", "out", "direct", name},
				Round: round,
				Values: map[string]float64{
					BytesPerSec: 2e9 / float64(i+1) * (1 + 0.01*float64(round)),
					CPUPerGB:    0.2 * float64(i) * (1 + 0.02*float64(round)),
					Failures:    0,
				},
			})
		}
	}
	r.Samples = append(r.Samples, Sample{
		Key: Key{"churn-1-client", "out", "direct", "sluice"}, Values: map[string]float64{ConnsPerSec: 5000, CallsPerConn: 25, P50: 120e-6},
		Calls: map[string]int64{"splice": 1, "accept4": 1000, "connect": 1000}, Work: 1000, Errors: map[string]int64{"connect: refused": 3},
	})
	return r
}

func TestTables(t *testing.T) {
	r := example()
	r.Faults = []Fault{{Key{"bulk-1-up", "out", "direct", "nginx"}, 0, "not installed"}, {Key{"bulk-1-up", "out", "direct", "nginx"}, 1, "not installed"}}
	r.Cut = "interrupt"
	var text, md, calls, bench bytes.Buffer
	if err := r.Tables(&text, Text); err != nil {
		t.Fatal(err)
	}
	if err := r.Tables(&md, Markdown); err != nil {
		t.Fatal(err)
	}
	if err := r.CallTables(&calls, Text); err != nil {
		t.Fatal(err)
	}
	if err := r.BenchText(&bench); err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "tables.golden", text.String())
	testkit.Golden(t, "markdown.golden", md.String())
	testkit.Golden(t, "calls.golden", calls.String())
	testkit.Golden(t, "bench.golden", bench.String())
}

// What benchstat reads is what was measured.
func TestBenchTextIsReadByBenchstat(t *testing.T) {
	r := example()
	var b bytes.Buffer
	if err := r.BenchText(&b); err != nil {
		t.Fatal(err)
	}
	read := benchfmt.NewReader(&b, "x")
	n := 0
	for read.Scan() {
		switch rec := read.Result().(type) {
		case *benchfmt.Result:
			if v, ok := rec.Value(BytesPerSec); n < len(r.Samples) && ok && math.Abs(v-r.Samples[n].Values[BytesPerSec]) > v*1e-7 {
				t.Errorf("sample %d reads as %v; want %v", n, v, r.Samples[n].Values[BytesPerSec])
			}
			n++
		case *benchfmt.SyntaxError:
			t.Error(rec)
		}
	}
	if n != len(r.Samples) || read.Err() != nil {
		t.Errorf("%d results, %v; want %d", n, read.Err(), len(r.Samples))
	}
}

func TestFileKeepsAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	r := example()
	if err := r.Write(path); err != nil {
		t.Fatal(err)
	}
	back, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	var a, b bytes.Buffer
	if err := r.BenchText(&a); err != nil {
		t.Fatal(err)
	}
	if err := back.BenchText(&b); err != nil {
		t.Fatal(err)
	}
	if a.String() != b.String() || back.Facts != r.Facts {
		t.Errorf("read back differs:\n%s\n%s", a.String(), b.String())
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("half a file: %v", err)
	}
}

// A write that fails leaves the file that was there, and no other.
func TestFailedWriteLeavesOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.json")
	if err := example().Write(path); err != nil {
		t.Fatal(err)
	}
	if err := new(Run).Write(filepath.Join(dir, "none", "r.json")); err == nil {
		t.Error("a folder that is not there takes a file")
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 1 {
		t.Errorf("folder holds %v, %v; want one file", list, err)
	}
}

func TestStat(t *testing.T) {
	few := NewStat([]float64{1, 2, 3})
	if few.Center != 2 || !math.IsInf(few.Hi, 1) || few.Spread() != 0.5 {
		t.Errorf("of three values: %+v, spread %v; want 2, no interval, 0.5", few, few.Spread())
	}
	six := NewStat([]float64{10, 10.1, 10.2, 10.3, 10.4, 10.5})
	if six.Lo != 10 || six.Hi != 10.5 {
		t.Errorf("of six values: %+v; want the interval 10 to 10.5", six)
	}
	if six.Noisy(Unit{}) || six.Noisy(Unit{Steady: true}) || !few.Noisy(Unit{}) {
		t.Error("±2.4 % is noise, or ±50 % is none")
	}
	if s := NewStat(nil); s.N != 0 || s.Spread() != 0 {
		t.Errorf("of nothing: %+v", s)
	}
}

func TestCompare(t *testing.T) {
	base, same, worse := []float64{1, 1.01, 1.02, 1.03, 1.04, 1.05}, []float64{1.05, 1, 1.02, 1.01, 1.03, 1.04}, []float64{1.2, 1.21, 1.22, 1.23, 1.24, 1.25}
	if d := Compare(base, same); d.Real || d.Text() != "~" {
		t.Errorf("equal values differ: %+v", d)
	}
	if d := Compare(base, worse); !d.Real || d.Text() != "+19.5%" {
		t.Errorf("19 %% more: %+v, %s", d, d.Text())
	}
	var b bytes.Buffer
	head := example()
	for i := range head.Samples {
		head.Samples[i].Values[CPUPerGB] *= 1.2
	}
	if err := WriteComparison(&b, example(), head, Text); err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "compare.golden", b.String())
}

func TestMergeNumbersRoundsOn(t *testing.T) {
	r := example()
	r.Merge(example())
	values, rounds := r.Values(Key{"bulk-1-up", "out", "direct", "wire"}, BytesPerSec)
	if len(values) != 12 || rounds[11] != 11 {
		t.Errorf("%d values, last round %d; want 12 and 11", len(values), rounds[len(rounds)-1])
	}
}

// Of 10 values there are 55 means; the table of the signed-rank test says that 9
// from either end are outside of 95 %, the normal distribution says 8. Both are 3 here.
func TestPairedInterval(t *testing.T) {
	s := NewPaired([]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
	if s.N != 10 || s.Center != 5.5 || s.Lo != 3 || s.Hi != 8 {
		t.Errorf("got %+v; want 5.5 in [3, 8]", s)
	}
	if s := NewPaired([]float64{1, 2, 3, 4, 5, 6}); s.Lo != 1 || s.Hi != 6 {
		t.Errorf("of 6 values the interval is [%v, %v]; want all of them", s.Lo, s.Hi)
	}
	if s := NewPaired([]float64{1, 2, 3, 4, 5}); !math.IsInf(s.Lo, -1) || !math.IsInf(s.Hi, 1) {
		t.Errorf("5 values have the interval [%v, %v]; want none", s.Lo, s.Hi)
	}
	if s := NewMean([]float64{1, 2, 3}); s.Center != 2 || s.Lo > 0 || s.Hi < 4 {
		t.Errorf("the mean is %+v; want 2 and an interval from below 0 to above 4", s)
	}
}
