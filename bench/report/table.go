package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Format says how tables are drawn.
type Format string

// The formats of tables.
const (
	Text     Format = "text"
	Markdown Format = "markdown"
)

// Tables writes a table for each cell: subjects in rows, figures in columns.
func (r *Run) Tables(w io.Writer, f Format) error {
	p := &printer{w: w}
	if f == Text {
		r.facts(p)
	}
	cells, subjects := r.Cells()
	for _, cell := range cells {
		units := r.unitsOf(cell, subjects[cell])
		title := fmt.Sprintf("%s, path %s, mode %s", cell.Scenario, cell.Path, cell.Mode)
		rows := [][]string{{"subject"}}
		for _, u := range units {
			rows[0] = append(rows[0], u.Title)
		}
		rows[0] = append(rows[0], "n")
		for _, name := range subjects[cell] {
			rows = append(rows, r.row(cell, name, units))
		}
		if f == Markdown {
			p.printf("**%s**\n\n", title)
		} else {
			p.printf("\n%s\n", title)
		}
		p.grid(rows, f)
	}
	r.notes(p, f)
	return p.err
}

// row is one subject's line. A figure that should not be relied on has a ?.
func (r *Run) row(cell Key, subject string, units []Unit) []string {
	k := cell
	k.Subject = subject
	row, n := []string{subject}, 0
	for _, u := range units {
		values, _ := r.Values(k, u.Name)
		if len(values) == 0 {
			row = append(row, "")
			continue
		}
		s := NewStat(values)
		n = max(n, s.N)
		row = append(row, u.format(s))
	}
	return append(row, strconv.Itoa(n))
}

func (u Unit) format(s Stat) string {
	text := strconv.FormatFloat(s.Center*u.Scale, 'f', u.Digits, 64)
	if s.N < 2 || s.Min == s.Max {
		return text
	}
	text += " ±" + strconv.FormatFloat(s.Spread()*100, 'f', 0, 64) + "%"
	if math.IsInf(s.Spread(), 0) {
		text = strings.TrimSuffix(text, "+Inf%") + "∞"
	}
	if s.Noisy(u) {
		text += "?"
	}
	return text
}

// unitsOf are the leading units that a subject of the cell has.
func (r *Run) unitsOf(cell Key, subjects []string) []Unit {
	var list []Unit
	for _, u := range Units() {
		if u.Lead && slices.ContainsFunc(subjects, func(name string) bool {
			k := cell
			k.Subject = name
			values, _ := r.Values(k, u.Name)
			return len(values) > 0
		}) {
			list = append(list, u)
		}
	}
	return list
}

func (r *Run) facts(p *printer) {
	f := r.Facts
	p.printf("%s  commit %s  %s\n", f.Time, f.Commit, f.Go)
	p.printf("%s (%s), %d cores, governor %s, %d MiB; kernel %s, %s; %d loops; load before %.2f\n",
		f.CPU, f.Flags, f.Cores, f.Governor, f.Memory>>20, f.Kernel, f.Congestion, f.Loops, f.LoadBefore)
	if f.Versions != "" {
		p.printf("%s\n", f.Versions)
	}
	p.printf("%s\n", f.Command)
}

// notes says what a reader must know before believing the tables.
func (r *Run) notes(p *printer, f Format) {
	var notes []string
	if r.Cut != "" {
		notes = append(notes, "The run was cut short: "+r.Cut+". The tables hold what was measured until then.")
	}
	for _, x := range r.faultLines() {
		notes = append(notes, "Not measured: "+x)
	}
	for _, x := range r.errorLines() {
		notes = append(notes, "Errors: "+x)
	}
	if noise := r.Noise(); noise != "" {
		notes = append(notes, noise)
	}
	if len(notes) > 0 {
		p.printf("\n")
	}
	for _, n := range notes {
		if f == Markdown {
			p.printf("- ")
		}
		p.printf("%s\n", n)
	}
}

// faultLines groups equal faults of one subject in one place.
func (r *Run) faultLines() []string {
	count := make(map[string]int)
	var order []string
	for _, f := range r.Faults {
		line := fmt.Sprintf("%s, path %s, mode %s: %s", f.Subject, f.Path, f.Mode, f.Error)
		if count[line] == 0 {
			order = append(order, line)
		}
		count[line]++
	}
	for i, line := range order {
		if n := count[line]; n > 1 {
			order[i] = fmt.Sprintf("%s (%d measurements)", line, n)
		}
	}
	slices.Sort(order)
	return order
}

func (r *Run) errorLines() []string {
	sums := make(map[string]int64)
	for _, s := range r.Samples {
		for what, n := range s.Errors {
			sums[s.Key.String()+": "+what] += n
		}
	}
	lines := make([]string, 0, len(sums))
	for what, n := range sums {
		lines = append(lines, fmt.Sprintf("%s: %d", what, n))
	}
	slices.Sort(lines)
	return lines
}

// Noise says how many of the figures should not be relied on; empty when none.
func (r *Run) Noise() string {
	cells, subjects := r.Cells()
	var rates, steady, noisyRates, noisyCounts, few int
	for _, cell := range cells {
		for _, name := range subjects[cell] {
			k := cell
			k.Subject = name
			for _, u := range Units() {
				values, _ := r.Values(k, u.Name)
				if len(values) < 2 || !u.Lead || u.Name == Failures || u.Name == P99 || u.Name == P999 || u.Name == RSS {
					continue
				}
				s := NewStat(values)
				if s.N < 6 {
					few++
				}
				switch {
				case u.Steady:
					steady++
					if s.Noisy(u) {
						noisyCounts++
					}
				default:
					rates++
					if s.Noisy(u) {
						noisyRates++
					}
				}
			}
		}
	}
	var text []string
	if noisyRates > 0 {
		text = append(text, fmt.Sprintf("%d of %d rates and latencies spread by more than ±%.0f %%", noisyRates, rates, noisyRate*100))
	}
	if noisyCounts > 0 {
		text = append(text, fmt.Sprintf("%d of %d figures of processor time and counts by more than ±%.0f %%", noisyCounts, steady, noisySteady*100))
	}
	if len(text) == 0 {
		return ""
	}
	out := "Noisy run: " + strings.Join(text, ", ") + " (marked ?): other work on this machine, or too short a run."
	if few > 0 {
		out += " With fewer than 6 samples ± is half the range, not an interval."
	}
	return out
}

// A printer keeps the first error of many writes.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// grid writes rows in columns: the first to the left, the others to the right.
func (p *printer) grid(rows [][]string, f Format) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, text := range row {
			width[i] = max(width[i], utf8.RuneCountInString(text))
		}
	}
	sep, edge := "  ", ""
	if f == Markdown {
		sep, edge = " | ", "|"
	}
	for n, row := range rows {
		line := make([]string, len(row))
		for i, text := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(text))
			if i == 0 {
				line[i] = text + pad
			} else {
				line[i] = pad + text
			}
		}
		text := strings.Join(line, sep)
		if f == Markdown {
			text = edge + " " + text + " " + edge
		}
		p.printf("%s\n", strings.TrimRight(text, " "))
		if n == 0 && f == Markdown {
			p.printf("| --- |%s\n", strings.Repeat(" ---: |", len(row)-1))
		}
	}
	if f == Markdown {
		p.printf("\n")
	}
}
