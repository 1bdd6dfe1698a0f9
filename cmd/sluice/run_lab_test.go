package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// alone starts the shipped program on a node without an agent, and waits for its
// ports.
func alone(t *testing.T, on *lab.Node, env []string, args ...string) *program {
	t.Helper()
	p := &program{t: t, node: on, Process: lab.Start(t, on.Space, lab.Program{
		Path: lab.Binary(t, "sluice"), Args: args, Dir: t.TempDir(),
		Env: append([]string{"INPOD_UDS=" + filepath.Join(on.Dir, "nobody.sock")}, env...),
	})}
	testkit.Try(t, testkit.Wait, "the readiness port", func() error {
		_, _, err := p.ask(http.MethodGet, 15021, "/healthz/ready")
		return err
	})
	return p
}

// The program starts without an agent, is not ready, says what its settings are,
// and ends in order: by a signal, and by the admin port.
func TestLabRun(t *testing.T) {
	testkit.NoLeaks(t)
	node := lab.New(t, lab.Simple(1, 0, 0)).Nodes[0]
	for _, tt := range []struct {
		name    string
		args    []string
		env     []string
		command string // as the dump shows it
		end     func(*program) error
		reason  string
	}{
		{"run", []string{"run", "--pod-drain=3m", "--loops=1"}, nil, "run",
			func(p *program) error { return p.Signal(lab.SIGTERM) }, "terminated"},
		{"the mesh's own words", []string{"proxy", "ztunnel"}, []string{"SLUICE_POD_DRAIN=180", "ZTUNNEL_WORKER_THREADS=1", "RUST_LOG=info"}, "proxy ztunnel",
			func(p *program) error { return p.Signal(lab.SIGINT) }, "interrupt"},
		{"no argument", nil, []string{"SLUICE_POD_DRAIN=180s", "SLUICE_LOOPS=1"}, "proxy",
			func(p *program) error {
				status, body, err := p.ask(http.MethodPost, 15000, "/quitquitquit")
				if status != http.StatusOK || body != "shutdown now\n" {
					t.Errorf("quit: %d %q", status, body)
				}
				return err
			}, "asked by the admin port"},
	} {
		p := alone(t, node, tt.env, tt.args...)
		if status, body, err := p.ask(http.MethodGet, 15021, "/healthz/ready"); status != 500 || body != "not ready, pending: workload proxy manager\n" || err != nil {
			t.Errorf("%s: readiness: %d %q, %v", tt.name, status, body, err)
		}
		_, dump, err := p.ask(http.MethodGet, 15000, "/config_dump")
		if err != nil {
			t.Error(err)
		}
		for _, want := range []string{`"pod-drain": "3m0s"`, `"loops": 1,`, `"command": "` + tt.command + `"`, `"workloadState": {}`} {
			if !strings.Contains(dump, want) {
				t.Errorf("%s: the dump has no %s:\n%s", tt.name, want, dump)
			}
		}
		if _, text, err := p.ask(http.MethodGet, 15020, "/stats/prometheus"); err != nil || !strings.Contains(text, "\nsluice_loop_answered{loop=\"0\"} 1\n") {
			t.Errorf("%s: metrics: %v", tt.name, err)
		}
		if err := tt.end(p); err != nil {
			t.Error(err)
		}
		p.ended(0)
		for _, want := range []string{"\tinfo\tapp\tsluice starts\t", `"pod-drain":"3m0s"`, "\tdrain begins\treason=\"" + tt.reason + "\"\n", "\tsluice ends\t\n"} {
			if strings.Count(p.Log(), want) != 1 {
				t.Errorf("%s: the log has not one %q:\n%s", tt.name, want, p.LogTail(10))
			}
		}
	}
}

// A profile of the run is complete when the program has ended.
func TestLabProfile(t *testing.T) {
	testkit.NoLeaks(t)
	node := lab.New(t, lab.Simple(1, 0, 0)).Nodes[0]
	dir := t.TempDir()
	p := alone(t, node, nil, "run", "--profile=mem", "--profile-dir="+dir)
	if err := p.Signal(lab.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.ended(0)
	text, err := os.ReadFile(filepath.Join(dir, "mem.pprof"))
	if err != nil || len(text) < 2 || text[0] != 0x1f || text[1] != 0x8b { // gzip
		t.Errorf("profile: %d bytes, %v", len(text), err)
	}
}
