package report

import (
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// rare calls per unit of work are left out of tables: they happen at the start,
// or now and then; the samples have them.
const rare = 0.05

// CallTables writes which system calls each subject made per unit of work, for
// every cell that was traced: the most frequent call first.
func (r *Run) CallTables(w io.Writer, f Format) error {
	p := &printer{w: w}
	cells, subjects := r.Cells()
	for _, cell := range cells {
		per := make(map[string]map[string]float64) // call, subject
		var traced []string
		for _, s := range r.Samples {
			if s.Cell() != cell || len(s.Calls) == 0 || s.Work == 0 {
				continue
			}
			if !slices.Contains(traced, s.Subject) {
				traced = append(traced, s.Subject)
			}
			for call, n := range s.Calls {
				if per[call] == nil {
					per[call] = make(map[string]float64)
				}
				per[call][s.Subject] = float64(n) / s.Work
			}
		}
		if len(per) == 0 {
			continue
		}
		most := func(call string) float64 {
			m := 0.0
			for _, v := range per[call] {
				m = max(m, v)
			}
			return m
		}
		calls := slices.SortedFunc(maps.Keys(per), func(a, b string) int {
			switch x, y := most(a), most(b); {
			case x > y:
				return -1
			case x < y:
				return 1
			}
			return strings.Compare(a, b)
		})
		p.printf("\n%s, path %s, mode %s: system calls per %s\n\n", cell.Scenario, cell.Path, cell.Mode, r.workOf(cell))
		traced = slices.DeleteFunc(slices.Clone(subjects[cell]), func(name string) bool { return !slices.Contains(traced, name) })
		rows := [][]string{append([]string{"call"}, traced...)}
		for _, call := range calls {
			if most(call) < rare {
				continue
			}
			row := []string{call}
			for _, name := range traced {
				row = append(row, strconv.FormatFloat(per[call][name], 'f', 2, 64))
			}
			rows = append(rows, row)
		}
		p.grid(rows, f)
	}
	return p.err
}

func (r *Run) workOf(cell Key) string {
	for _, s := range r.Samples {
		if s.Cell() != cell {
			continue
		}
		for unit, what := range map[string]string{CallsPerMiB: "MiB", CallsPerConn: "connection", CallsPerExch: "exchange"} {
			if _, ok := s.Values[unit]; ok {
				return what
			}
		}
	}
	return "unit of work"
}
