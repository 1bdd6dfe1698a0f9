package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/bench/report"
)

// A script that runs the bench must not take a run in which everything failed
// for a result.
func TestRunWithoutSamplesFails(t *testing.T) {
	f := runFlags{out: filepath.Join(t.TempDir(), "out.json")}
	var text strings.Builder
	out := &report.Run{Faults: []report.Fault{{Key: report.Key{Scenario: "rr-1-1", Subject: "copy"}, Error: "permission denied"}}}
	err := f.finish(&text, out)
	if err == nil || !strings.Contains(err.Error(), "nothing was measured") {
		t.Errorf("error %v; want one that says so", err)
	}
	if !strings.Contains(text.String(), "permission denied") {
		t.Errorf("it printed %q; want the reason in it", text.String())
	}
	out.Samples = []report.Sample{{Key: out.Faults[0].Key}}
	if err := f.finish(&text, out); err != nil {
		t.Errorf("error %v with a sample", err)
	}
}
