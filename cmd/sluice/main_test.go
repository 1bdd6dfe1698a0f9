package main

import (
	"bytes"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// The command lines of the mesh's own proxy, and ours, that end by themselves.
func TestCommandLines(t *testing.T) {
	wrong := "SLUICE_LOOPS=many" // keeps what would serve from serving
	const fault = "sluice: invalid env var SLUICE_LOOPS=many ("
	for _, tt := range []struct {
		args           string
		env            []string
		status         int
		stdout, stderr string // regular expressions for the beginning
	}{
		{"version", nil, 0, `version\.BuildInfo\{Version:".+", GitRevision:".+", RustVersion:"n/a", BuildProfile:"release", BuildStatus:"(Clean|Modified)", IstioVersion:"unknown", CryptoProvider:"go", GoVersion:"go1\..+"\}\n$`, "$"},
		{"version", []string{"ISTIO_META_ISTIO_VERSION=1.31.0"}, 0, `.*IstioVersion:"1\.31\.0"`, "$"},
		{"help", nil, 0, `The proxy of a node(.|\n)*Version: .+(.|\n)*proxy(.|\n)*run(.|\n)*version`, "$"},
		{"run --help", nil, 0, "Serve the pods(.|\n)*--zds-socket", "$"},
		{"tunnel", nil, 1, "$", "The proxy of a node(.|\n)*sluice: unknown command: tunnel\n$"},
		{"--", nil, 1, "$", "The proxy of a node(.|\n)*sluice: unknown command: \n$"},
		{"run --no-such-flag", nil, 1, "$", "sluice: unknown flag: --no-such-flag\n$"},
		{"run more", nil, 1, "$", "sluice: unknown command \"more\""},
		{"run", []string{wrong}, 1, "$", regexp.QuoteMeta(fault)},
		{"run --loops=x", []string{wrong}, 1, "$", regexp.QuoteMeta(fault) + ".*\nsluice: invalid flag --loops=x"},
		{"", []string{wrong}, 1, "$", regexp.QuoteMeta(fault)},
		{"proxy", []string{wrong}, 1, "$", regexp.QuoteMeta(fault)},
		{"proxy ztunnel --loops=1", []string{wrong}, 1, "$", regexp.QuoteMeta(fault) + ".*\n$"},
	} {
		var stdout, stderr bytes.Buffer
		status := execute(strings.Fields(tt.args), environment(tt.env...), &stdout, &stderr)
		if status != tt.status {
			t.Errorf("%q: status %d", tt.args, status)
		}
		for _, s := range []struct{ name, got, want string }{{"stdout", stdout.String(), tt.stdout}, {"stderr", stderr.String(), tt.stderr}} {
			if !regexp.MustCompile("^" + s.want).MatchString(s.got) {
				t.Errorf("%q: %s %q, want %s", tt.args, s.name, s.got, s.want)
			}
		}
	}
}

// The first signal drains; an interrupt after that ends the process, a second
// SIGTERM does not.
func TestSignals(t *testing.T) {
	testkit.NoLeaks(t)
	interrupt := os.Interrupt
	for _, tt := range []struct {
		name  string
		sends []os.Signal
		exits bool
	}{
		{"one interrupt", []os.Signal{interrupt}, false},
		{"two interrupts", []os.Signal{interrupt, interrupt}, true},
		{"terminate twice", []os.Signal{sys.SIGTERM, sys.SIGTERM}, false},
		{"terminate, interrupt", []os.Signal{sys.SIGTERM, interrupt}, true},
	} {
		signals, ended := make(chan os.Signal, len(tt.sends)), make(chan struct{})
		drains, exited := 0, make(chan int, 1)
		for _, s := range tt.sends {
			signals <- s
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			watchSignals(signals, ended, func() { drains++ }, func(status int) { exited <- status }, slog.New(slog.DiscardHandler))
		}()
		testkit.Eventually(t, testkit.Wait, "the signals to be taken", func() bool { return len(signals) == 0 })
		if tt.exits {
			if status := testkit.Receive(t, testkit.Wait, tt.name+": the exit", exited); status != 0 {
				t.Errorf("%s: status %d", tt.name, status)
			}
		}
		close(ended)
		testkit.Within(t, testkit.Wait, "the end of the watch", func() error { <-done; return nil })
		if drains != 1 || len(exited) != 0 {
			t.Errorf("%s: %d drains, %d more exits", tt.name, drains, len(exited))
		}
	}
}
