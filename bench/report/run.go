// Package report holds the results of bench runs and shows them: as tables, as
// JSON, as Go benchmark text, and compared with each other.
//
// Data enters as Samples added to a Run, or as a file; it leaves as text. Every
// raw sample is kept: medians and intervals are made when they are shown, with
// the statistics of benchstat. Owns nothing. Threads: a Run belongs to one
// goroutine.
package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Facts are what a figure depends on besides the code.
type Facts struct {
	Time       string  `json:"time"` // RFC 3339
	Command    string  `json:"command"`
	Commit     string  `json:"commit"` // with + when files were changed
	Go         string  `json:"go"`
	CPU        string  `json:"cpu"`
	Flags      string  `json:"flags"` // those that matter to us
	Cores      int     `json:"cores"`
	Governor   string  `json:"governor"`
	Memory     int64   `json:"memory"` // bytes
	Kernel     string  `json:"kernel"`
	Congestion string  `json:"congestion"` // of the lab
	Loops      int     `json:"loops"`      // threads of each subject
	LoadBefore float64 `json:"loadBefore"` // load average when the run began
	Versions   string  `json:"versions"`   // of the peers
}

// A Key names what was measured.
type Key struct {
	Scenario string `json:"scenario"`
	Path     string `json:"path"`
	Mode     string `json:"mode"`
	Subject  string `json:"subject"`
}

func (k Key) String() string {
	return strings.Join([]string{k.Scenario, k.Path, k.Mode, k.Subject}, "/")
}

// Cell is the key without its subject: what belongs into one table.
func (k Key) Cell() Key {
	k.Subject = ""
	return k
}

// A Sample is one measurement.
type Sample struct {
	Key
	Round  int                `json:"round"`
	Values map[string]float64 `json:"values"`           // by the name of the unit
	Errors map[string]int64   `json:"errors,omitempty"` // that the load saw
	Calls  map[string]int64   `json:"calls,omitempty"`  // of the subject, in a pass under strace
	Work   float64            `json:"work,omitempty"`   // MiB or connections or exchanges that Calls is about
}

// A Fault is a measurement that could not be taken.
type Fault struct {
	Key
	Round int    `json:"round"`
	Error string `json:"error"`
}

// A Run is all that one call of the bench measured.
type Run struct {
	Facts     Facts    `json:"facts"`
	Scenarios []string `json:"scenarios"` // in the order in which to show them
	Subjects  []string `json:"subjects"`

	Samples []Sample `json:"samples"`
	Faults  []Fault  `json:"faults,omitempty"`
	Cut     string   `json:"cut,omitempty"` // why the run ended before its end
}

// Write puts the run into a file: all of it, or the file stays as it was.
func (r *Run) Write(path string) (err error) {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".result-*")
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// Read reads the file of a run.
func Read(path string) (*Run, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	r := new(Run)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("read result %s: %w; want a file that sluice-bench run wrote", path, err)
	}
	return r, nil
}

// Merge adds the samples of other runs: rounds are numbered on.
func (r *Run) Merge(o *Run) {
	for _, l := range []struct{ to, from *[]string }{{&r.Scenarios, &o.Scenarios}, {&r.Subjects, &o.Subjects}} {
		for _, name := range *l.from {
			if !slices.Contains(*l.to, name) {
				*l.to = append(*l.to, name)
			}
		}
	}
	next := 0
	for _, s := range r.Samples {
		next = max(next, s.Round+1)
	}
	for _, s := range o.Samples {
		s.Round += next
		r.Samples = append(r.Samples, s)
	}
	for _, f := range o.Faults {
		f.Round += next
		r.Faults = append(r.Faults, f)
	}
}

// Cells lists what was measured, and the subjects of each cell, in the order of
// the run's lists.
func (r *Run) Cells() (cells []Key, subjects map[Key][]string) {
	subjects = make(map[Key][]string)
	for _, s := range r.Samples {
		cell := s.Cell()
		if _, ok := subjects[cell]; !ok {
			cells = append(cells, cell)
		}
		if !slices.Contains(subjects[cell], s.Subject) {
			subjects[cell] = append(subjects[cell], s.Subject)
		}
	}
	slices.SortStableFunc(cells, func(a, b Key) int {
		return cmp.Or(
			cmp.Compare(slices.Index(r.Scenarios, a.Scenario), slices.Index(r.Scenarios, b.Scenario)),
			strings.Compare(a.Path+"/"+a.Mode, b.Path+"/"+b.Mode))
	})
	for _, list := range subjects {
		slices.SortStableFunc(list, func(a, b string) int {
			return cmp.Compare(slices.Index(r.Subjects, a), slices.Index(r.Subjects, b))
		})
	}
	return cells, subjects
}

// Values collects one unit of one key, by round.
func (r *Run) Values(k Key, unit string) (values []float64, rounds []int) {
	for _, s := range r.Samples {
		if v, ok := s.Values[unit]; ok && s.Key == k {
			values = append(values, v)
			rounds = append(rounds, s.Round)
		}
	}
	return values, rounds
}
