package report

import (
	"io"
	"strconv"
	"strings"
)

// BenchText writes every sample as Go benchmark text, for benchstat and for
// whatever else reads it.
func (r *Run) BenchText(w io.Writer) error {
	p := &printer{w: w}
	p.printf("goos: linux\ncpu: %s\nkernel: %s\ncommit: %s\n", r.Facts.CPU, r.Facts.Kernel, r.Facts.Commit)
	for _, u := range Units() {
		if u.Higher {
			p.printf("Unit %s better=higher\n", u.Name)
		} else {
			p.printf("Unit %s better=lower\n", u.Name)
		}
	}
	for _, s := range r.Samples {
		var line strings.Builder
		for _, u := range Units() {
			if v, ok := s.Values[u.Name]; ok {
				line.WriteString(" " + strconv.FormatFloat(v, 'g', 8, 64) + " " + u.Name)
			}
		}
		p.printf("BenchmarkFlow/scenario=%s/path=%s/mode=%s/subject=%s 1%s\n", s.Scenario, s.Path, s.Mode, s.Subject, line.String())
	}
	return p.err
}
