package report

import (
	"io"
	"strconv"
)

// WriteComparison writes how head differs from base, for each key and leading
// unit that both have.
func WriteComparison(w io.Writer, base, head *Run, f Format) error {
	p := &printer{w: w}
	p.printf("base: commit %s, %s\nhead: commit %s, %s\n\n", base.Facts.Commit, base.Facts.Time, head.Facts.Commit, head.Facts.Time)
	rows := [][]string{{"what", "unit", "base", "head", "change", "p"}}
	cells, subjects := base.Cells()
	for _, cell := range cells {
		for _, name := range subjects[cell] {
			k := cell
			k.Subject = name
			for _, u := range Units() {
				a, _ := base.Values(k, u.Name)
				b, _ := head.Values(k, u.Name)
				if !u.Lead || len(a) == 0 || len(b) == 0 {
					continue
				}
				d := Compare(a, b)
				rows = append(rows, []string{k.String(), u.Title, u.format(d.Base), u.format(d.Head), d.Text(), strconv.FormatFloat(d.P, 'f', 3, 64)})
			}
		}
	}
	if len(rows) == 1 {
		p.printf("The two runs have nothing in common.\n")
		return p.err
	}
	p.grid(rows, f)
	for _, r := range []*Run{base, head} {
		if noise := r.Noise(); noise != "" {
			p.printf("\ncommit %s: %s\n", r.Facts.Commit, noise)
		}
	}
	return p.err
}
