package main

import "testing"

// The end of the time is no failure; a find at the same moment is.
func TestOverdue(t *testing.T) {
	const end = "fuzz: elapsed: 3s\n--- FAIL: FuzzX (3.09s)\n    context deadline exceeded\nFAIL\n"
	if !overdue([]byte(end)) {
		t.Error("the end of the time is taken for a failure")
	}
	for _, out := range []string{end + "    Failing input written to testdata/fuzz/FuzzX/1\n", "--- FAIL: FuzzX\n    panic\n", ""} {
		if overdue([]byte(out)) {
			t.Errorf("a failure is taken for the end of the time: %q", out)
		}
	}
}
