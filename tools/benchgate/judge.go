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

// A judged unit holds on a shared machine, and costs.
type judged struct {
	unit string
	// part of another unit's figure: what is judged is by how much that one would
	// change if nothing but this part did.
	of string
}

// judgedUnits lists them. What the kernel does for a subject is on the account of
// whoever was interrupted, so that processor time per byte spreads by 10 to 20 %
// from turn to turn. User time does not, and it is where a change of ours shows
// first: it is judged besides. What else a change can cost is system calls.
func judgedUnits() []judged {
	return []judged{
		{unit: report.CPUPerGB}, {report.UserPerGB, report.CPUPerGB},
		{unit: report.CPUPerKConn}, {report.UserPerKConn, report.CPUPerKConn},
		{unit: report.CPUPerKExchange}, {report.UserPerKExch, report.CPUPerKExchange},
		{unit: report.CallsPerMiB}, {unit: report.CallsPerConn}, {unit: report.CallsPerExch},
	}
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
		for _, u := range judgedUnits() {
			r := row{key: b, unit: u.unit}
			for i, run := range runs {
				ratio := u.ratio(run, a, b)
				if ratio.N == 0 && i == 0 {
					break // not a unit of this cell
				}
				if ratio.N < fewest {
					faults = append(faults, fmt.Errorf("%v %s: %d rounds in run %d; want %d or more", b, u.unit, ratio.N, i+1, fewest))
					continue
				}
				r.ratios = append(r.ratios, ratio)
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

// ratio sums up how head compares to base over the turns that measured both.
func (u judged) ratio(run *report.Run, base, head report.Key) report.Stat {
	b, h := pairs(run, base, head, u.unit)
	if u.of != "" {
		whole, _ := pairs(run, base, head, u.of)
		all := report.NewStat(whole).Center
		if all <= 0 {
			return report.Stat{}
		}
		changed := make([]float64, len(b))
		for i := range b {
			changed[i] = 1 + (h[i]-b[i])/all
		}
		return report.NewMean(changed)
	}
	logs := make([]float64, len(b))
	for i := range b {
		switch {
		case b[i] > 0:
			logs[i] = math.Log(h[i] / b[i])
		case h[i] > 0:
			logs[i] = math.Inf(1) // from nothing to something
		}
	}
	s := report.NewPaired(logs)
	for _, f := range []*float64{&s.Center, &s.Lo, &s.Hi, &s.Min, &s.Max} {
		*f = math.Exp(*f)
	}
	return s
}

// pairs gives the values of the turns that measured both.
func pairs(run *report.Run, base, head report.Key, unit string) (b, h []float64) {
	values, rounds := run.Values(base, unit)
	of := make(map[int]float64, len(values))
	for i, v := range values {
		of[rounds[i]] = v
	}
	values, rounds = run.Values(head, unit)
	for i, v := range values {
		if x, ok := of[rounds[i]]; ok {
			b, h = append(b, x), append(h, v)
		}
	}
	return b, h
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
