package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
)

// TestLabDemo runs the demo with the shipped programs, and again with an
// interrupt in the middle, after which nothing is left.
func TestLabDemo(t *testing.T) {
	lab.Require(t)
	t.Setenv("SLUICE_BIN", strings.TrimSuffix(lab.Binary(t, "sluice"), "/sluice"))
	var out strings.Builder
	if err := demonstrate(t.Context(), &out, ""); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.HasSuffix(out.String(), "demo: ok\n") || strings.Count(out.String(), "Gbit/s") != 3 {
		t.Errorf("the demo printed:\n%s", out.String())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	out.Reset()
	if err := demonstrate(ctx, &out, ""); err == nil {
		t.Errorf("the interrupted demo says it went well:\n%s", out.String())
	}
	labs, err := lab.Standing()
	if err != nil {
		t.Fatal(err)
	}
	for name, owner := range labs {
		if owner == os.Getpid() { // others' labs come and go
			t.Errorf("lab %s is still up", name)
		}
	}
}
