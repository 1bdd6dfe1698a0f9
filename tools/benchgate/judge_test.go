package main

import (
	"bytes"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/bench/report"
)

// synthetic makes a run as the bench would: every round shakes both subjects
// alike (what else the machine does), and each by itself a little.
func synthetic(seed uint64, rounds int, slower float64) *report.Run {
	rng := rand.New(rand.NewPCG(seed, 99))
	r := new(report.Run)
	for round := range rounds {
		for _, c := range []struct {
			scenario, unit string
			cost           float64
		}{
			{"bulk-1-up", report.CPUPerGB, 0.2},
			{"bulk-8-up", report.CPUPerGB, 0.25},
			{"churn-32-client", report.CPUPerKConn, 0.08},
			{"bulk-1-up", report.CallsPerMiB, 30},
			{"churn-32-client", report.CallsPerConn, 26},
		} {
			common := 1 + 0.1*rng.NormFloat64()
			if strings.HasPrefix(c.unit, "calls") {
				common = 1
			}
			for name, factor := range map[string]float64{"base": 1, "head": slower} {
				own := 1 + 0.015*rng.NormFloat64()
				r.Samples = append(r.Samples, report.Sample{
					Key:    report.Key{Scenario: c.scenario, Path: "out", Mode: "direct", Subject: name},
					Round:  round,
					Values: map[string]float64{c.unit: c.cost * common * own * factor, report.BytesPerSec: 1e9},
				})
			}
		}
	}
	return r
}

// Ten pairs of runs of equal builds pass, and so do a thousand but a few.
func TestNoisePasses(t *testing.T) {
	failed := 0
	for i := range uint64(1000) {
		v, err := judge([]*report.Run{synthetic(2*i, 8, 1), synthetic(2*i+1, 8, 1)}, "base", "head")
		if err != nil {
			t.Fatal(err)
		}
		if len(v.rows) != 5 {
			t.Fatalf("%d rows judged; want 5", len(v.rows))
		}
		if len(v.regressions()) > 0 {
			failed++
			if i < 10 {
				t.Errorf("pair %d of equal builds fails", i)
			}
		}
	}
	if failed > 2 {
		t.Errorf("%d of 1000 pairs of equal builds fail", failed)
	}
}

func TestTenPercentIsCaught(t *testing.T) {
	missed := 0
	for i := range uint64(200) {
		v, err := judge([]*report.Run{synthetic(2*i, 8, 1.1), synthetic(2*i+1, 8, 1.1)}, "base", "head")
		if err != nil {
			t.Fatal(err)
		}
		missed += 5 - len(v.regressions())
	}
	if missed > 10 {
		t.Errorf("10 %% is missed in %d of 1000 rows", missed)
	}
}

func TestFasterPasses(t *testing.T) {
	v, err := judge([]*report.Run{synthetic(1, 8, 0.8), synthetic(2, 8, 0.8)}, "base", "head")
	if err != nil || len(v.regressions()) > 0 {
		t.Errorf("a faster build: %v, %v", v.regressions(), err)
	}
}

// uneven is a run in which the same work costs the subject 20 % more or less from
// turn to turn, because the kernel's part is on changing accounts, and user time is
// counted in ticks.
func uneven(seed uint64, turns int, burn float64) *report.Run {
	rng := rand.New(rand.NewPCG(seed, 7))
	r := new(report.Run)
	for turn := range turns {
		for _, name := range []string{"base", "head"} {
			user, kernel := 0.01, 0.3*(1+0.2*rng.NormFloat64())
			if name == "head" {
				user += burn
			}
			ticks := math.Round(user*40 + rng.NormFloat64()*0.8) // of 10 ms in a turn
			r.Samples = append(r.Samples, report.Sample{
				Key: report.Key{Scenario: "bulk-1-up", Path: "node", Mode: "direct", Subject: name}, Round: turn,
				Values: map[string]float64{report.CPUPerGB: user + kernel, report.UserPerGB: max(ticks, 0) / 40},
			})
		}
	}
	return r
}

// A tenth more of user time shows where processor time as a whole is uneven; and
// unevenness alone does not.
func TestUserTimeShowsWhatNoiseHides(t *testing.T) {
	missed, failed := 0, 0
	for i := range uint64(200) {
		for burn, wrong := range map[float64]*int{0.031: &missed, 0: &failed} {
			v, err := judge([]*report.Run{uneven(2*i, 60, burn), uneven(2*i+1, 60, burn)}, "base", "head")
			if err != nil {
				t.Fatal(err)
			}
			if caught := len(v.regressions()) > 0; caught != (burn > 0) {
				*wrong++
			}
		}
	}
	if missed > 2 || failed > 2 {
		t.Errorf("of 200 pairs of runs each, 10 %% was missed in %d, and %d of equal builds failed; want 2 or fewer", missed, failed)
	}
}

// One run that shows it and one that does not is no regression.
func TestOneRunAloneDoesNotFail(t *testing.T) {
	v, err := judge([]*report.Run{synthetic(1, 8, 1.1), synthetic(2, 8, 1)}, "base", "head")
	if err != nil || len(v.regressions()) > 0 {
		t.Errorf("one bad run of two: %v, %v", v.regressions(), err)
	}
}

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, r *report.Run) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := r.Write(path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good1, good2 := file("good1", synthetic(1, 8, 1)), file("good2", synthetic(2, 8, 1))
	bad1, bad2 := file("bad1", synthetic(3, 8, 1.1)), file("bad2", synthetic(4, 8, 1.1))
	short := file("short", synthetic(5, 3, 1))
	broken := synthetic(6, 8, 1)
	broken.Faults = append(broken.Faults, report.Fault{Key: report.Key{Scenario: "bulk-1-up", Subject: "head"}, Error: "it died"})
	died := file("died", broken)

	for _, tt := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"equal", []string{good1, good2}, exitPass, "ok"},
		{"slower once", []string{bad1}, exitSuspect, "measure again"},
		{"slower twice", []string{bad1, bad2}, exitFail, "REGRESSION"},
		{"slower in one of two", []string{bad1, good1}, exitPass, "not confirmed"},
		{"too few rounds", []string{short}, exitBroken, "3 rounds"},
		{"a subject died", []string{died}, exitBroken, "it died"},
		{"other subjects", []string{"-base", "x", "-head", "y", good1}, exitBroken, "nothing to judge"},
		{"no file", nil, exitBroken, "no result file"},
		{"no such file", []string{filepath.Join(dir, "none")}, exitBroken, "no such file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			code, err := run(tt.args, &out)
			text := out.String()
			if err != nil {
				text += err.Error()
			}
			if code != tt.code || !strings.Contains(text, tt.says) {
				t.Errorf("exit %d, %q; want %d and %q", code, text, tt.code, tt.says)
			}
		})
	}
}
