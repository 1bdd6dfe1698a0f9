package lab_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

func TestLabProcess(t *testing.T) {
	testkit.NoLeaks(t)
	l := lab.New(t, lab.Simple(1, 1, 0))
	p1 := l.Find("p1")

	t.Run("runs inside", func(t *testing.T) {
		p := lab.Start(t, p1, lab.Program{Path: "sh", Args: []string{"-c", `ip -4 -o addr show eth0; echo "$COLOUR"`}, Env: []string{"COLOUR=green"}})
		exit, err := p.Wait(testkit.Wait)
		if err != nil || exit.Code != 0 {
			t.Errorf("%v, %v", exit, err)
		}
		if !p.Logged(p1.Addr4.String()) || p.LogTail(1) != "green" {
			t.Errorf("wrote %q", p.Log())
		}
		if exit.MaxRSS < 1<<16 || exit.MaxRSS > 1<<30 {
			t.Errorf("used %d bytes", exit.MaxRSS)
		}
	})
	t.Run("exit status", func(t *testing.T) {
		p := lab.Start(t, p1, lab.Program{Path: "sh", Args: []string{"-c", "exit 7"}})
		if exit, err := p.Wait(testkit.Wait); err != nil || exit.String() != "exit status 7" {
			t.Errorf("%v, %v", exit, err)
		}
		if err := p.Signal(lab.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("signal after the end: %v", err)
		}
	})
	t.Run("stopped by a signal", func(t *testing.T) {
		p := lab.Start(t, p1, lab.Program{Path: "sleep", Args: []string{"300"}})
		if exit, err := p.Stop(lab.SIGTERM, testkit.Wait); err != nil || exit.Signal != lab.SIGTERM {
			t.Errorf("%v, %v", exit, err)
		}
	})
	t.Run("deaf to the signal", func(t *testing.T) {
		p := lab.Start(t, p1, lab.Program{Name: "deaf", Path: "sh", Args: []string{"-c", `trap "" TERM; echo ready; while :; do sleep 1; done`}})
		testkit.Eventually(t, testkit.Wait, "the trap set", func() bool { return p.Logged("ready") })
		_, err := p.Stop(lab.SIGTERM, 50*time.Millisecond)
		if err == nil || !strings.Contains(err.Error(), "deaf") || !strings.Contains(err.Error(), "killed") {
			t.Errorf("error %v", err)
		}
		if exit, err := p.Wait(testkit.Wait); err != nil || exit.Signal != lab.SIGKILL {
			t.Errorf("%v, %v", exit, err)
		}
	})
	t.Run("no such program", func(t *testing.T) {
		if _, err := p1.Start(lab.Program{Path: "no-such-program"}); err == nil || !strings.Contains(err.Error(), "p1: start no-such-program") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("logs have names of their own", func(t *testing.T) {
		a := lab.Start(t, p1, lab.Program{Path: "true"})
		b := lab.Start(t, p1, lab.Program{Path: "true"})
		if a.LogPath == b.LogPath {
			t.Errorf("both write to %s", a.LogPath)
		}
	})
	t.Run("listed", func(t *testing.T) {
		p := lab.Start(t, p1, lab.Program{Path: "sleep", Args: []string{"299"}})
		list, err := p1.Running()
		if err != nil || len(list) == 0 {
			t.Fatalf("running: %v, %v", list, err)
		}
		found := false
		for _, r := range list {
			found = found || r.PID == p.PID && r.Command == "sleep 299"
		}
		if !found {
			t.Errorf("running: %v lacks process %d", list, p.PID)
		}
	})
}

// TestLabCloseEndsProcesses also covers children of children.
func TestLabCloseEndsProcesses(t *testing.T) {
	testkit.NoLeaks(t)
	lab.Require(t)
	l, err := lab.Build("", lab.Simple(1, 1, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := lab.Start(t, l.Find("p1"), lab.Program{Path: "sh", Args: []string{"-c", "sleep 298 & echo $!; wait"}})
	testkit.Eventually(t, testkit.Wait, "a grandchild", func() bool { return p.Logged("\n") })
	list, err := l.Find("p1").Running()
	if err != nil || len(list) != 2 {
		t.Fatalf("running: %v, %v; want the shell and its child", list, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		testkit.Eventually(t, testkit.Wait, "process "+r.Command+" gone", func() bool { return !runs(r.PID) })
	}
	if err := l.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if _, err := l.Find("p1").Start(lab.Program{Path: "true"}); err == nil {
		t.Error("a program started in a closed lab")
	}
}

func TestLabCommand(t *testing.T) {
	testkit.NoLeaks(t)
	l := lab.New(t, lab.Simple(1, 1, 0))
	p1 := l.Find("p1")
	if got := lab.Output(t, p1, "ip", "-4", "-o", "addr", "show", "eth0"); !strings.Contains(got, "198.51.100.1/32") || !strings.Contains(got, "203.0.113.1/32") {
		t.Errorf("addresses: %s", got)
	}
	if got := lab.Output(t, l.Nodes[0].Space, "ip", "netns", "exec", p1.Netns, "ip", "-4", "-o", "addr", "show", "eth0"); !strings.Contains(got, "198.51.100.1/32") {
		t.Errorf("by ip netns exec: %s", got)
	}
	if _, err := p1.Output(t.Context(), "sh", "-c", "echo why >&2; exit 3"); err == nil || !strings.Contains(err.Error(), "exit status 3: why") {
		t.Errorf("error %v", err)
	}
}
