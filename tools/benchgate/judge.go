package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/sluice-mesh/sluice/bench/report"
)

const (
	// slack is how much more head may cost without a word: below it a difference
	// is as likely a matter of where the linker put the code.
	slack = 0.02
	// fewest rounds that give an interval of 95 % for a median.
	fewest = 6
)

// judged are the units that hold on a shared machine, and cost.
var judged = map[string]bool{
	report.CPUPerGB: true, report.CPUPerKConn: true, report.CPUPerKExchange: true,
	report.CallsPerMiB: true, report.CallsPerConn: true, report.CallsPerExch: true,
}

// A row is one unit of one cell.
type row struct {
	key    report.Key // of head
	unit   string
	ratios []report.Stat // of head to base, one per run
}

// worse reports whether the run's interval lies above the slack.
func worse(s report.Stat) bool { return s.Lo > 1+slack }

// regression reports whether every run confirms it.
func (r row) regression() bool {
	for _, s := range r.ratios {
		if !worse(s) {
			return false
		}
	}
	return true
}

type verdict struct{ rows []row }

func (v verdict) regressions() []row {
	var bad []row
	for _, r := range v.rows {
		if r.regression() {
			bad = append(bad, r)
		}
	}
	return bad
}

// judge compares the two subjects in each cell of the first run. What it cannot
// judge is an error: a gate that measured nothing must not pass.
func judge(runs []*report.Run, base, head string) (verdict, error) {
	var v verdict
	var faults []error
	cells, _ := runs[0].Cells()
	for _, cell := range cells {
		a, b := cell, cell
		a.Subject, b.Subject = base, head
		for _, u := range report.Units() {
			if !judged[u.Name] {
				continue
			}
			r := row{key: b, unit: u.Name}
			for i, run := range runs {
				ratios := pairs(run, a, b, u.Name)
				if len(ratios) == 0 && i == 0 {
					break // not a unit of this cell
				}
				if len(ratios) < fewest {
					faults = append(faults, fmt.Errorf("%v %s: %d rounds in run %d; want %d or more", b, u.Name, len(ratios), i+1, fewest))
					continue
				}
				r.ratios = append(r.ratios, report.NewStat(ratios))
			}
			if len(r.ratios) > 0 {
				v.rows = append(v.rows, r)
			}
		}
	}
	for i, run := range runs {
		for _, f := range run.Faults {
			if f.Subject == head || f.Subject == base {
				faults = append(faults, fmt.Errorf("run %d: %v was not measured: %s", i+1, f.Key, f.Error))
			}
		}
	}
	if len(v.rows) == 0 {
		faults = append(faults, fmt.Errorf("nothing to judge: no cell has both subjects %q and %q", base, head))
	}
	return v, errors.Join(faults...)
}

// pairs gives the ratio of each round that measured both.
func pairs(run *report.Run, base, head report.Key, unit string) []float64 {
	values, rounds := run.Values(base, unit)
	of := make(map[int]float64, len(values))
	for i, v := range values {
		of[rounds[i]] = v
	}
	var ratios []float64
	values, rounds = run.Values(head, unit)
	for i, v := range values {
		b, ok := of[rounds[i]]
		switch {
		case !ok:
		case b > 0:
			ratios = append(ratios, v/b)
		case v > 0:
			ratios = append(ratios, math.Inf(1)) // from nothing to something
		default:
			ratios = append(ratios, 1)
		}
	}
	return ratios
}

func (v verdict) write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "what\tunit\thead/base, each run\tverdict")
	for _, r := range v.rows {
		var text strings.Builder
		some := false
		for i, s := range r.ratios {
			if i > 0 {
				text.WriteString("; ")
			}
			text.WriteString(fmt.Sprintf("%.3f [%.3f, %.3f]", s.Center, s.Lo, s.Hi))
			some = some || worse(s)
		}
		say := "ok"
		switch {
		case r.regression() && len(r.ratios) > 1:
			say = "REGRESSION"
		case r.regression():
			say = "suspect: measure again"
		case some:
			say = "not confirmed"
		}
		fmt.Fprintf(t, "%s/%s/%s\t%s\t%s\t%s\n", r.key.Scenario, r.key.Path, r.key.Mode, r.unit, text.String(), say)
	}
	return t.Flush()
}
