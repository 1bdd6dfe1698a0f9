package lab_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// A victim is a process that has built a lab and waits to be ended.
type victim struct {
	cmd  *exec.Cmd
	Name string // of its lab
	Dir  string
	PIDs []int // of the programs inside: one that dies with it, one that does not
}

// TestLabVictim is not a test but the victim's main.
func TestLabVictim(t *testing.T) {
	if os.Getenv("LAB_VICTIM") == "" {
		return // as a test it has nothing to show
	}
	l := lab.New(t, lab.Simple(1, 1, 0))
	tied := lab.Start(t, l.Nodes[0].Space, lab.Program{Path: "sleep", Args: []string{"300"}})
	loose := l.Find("p1").Command(t.Context(), "sleep", "300")
	if err := loose.Start(); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(victim{Name: l.Name, Dir: l.Dir, PIDs: []int{tied.PID, loose.Process.Pid}})
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("\nvictim %s\n", text)
	<-t.Context().Done()
}

func startVictim(t *testing.T) victim {
	t.Helper()
	v := victim{cmd: exec.Command(os.Args[0], "-test.run=^TestLabVictim$")}
	v.cmd.Env = append(os.Environ(), "LAB_VICTIM=1")
	v.cmd.Stderr = os.Stderr
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.cmd.Process.Kill(); v.cmd.Wait() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "victim "); ok {
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatal("the victim has built no lab")
	panic("unreachable")
}

// remains lists what is left of the victim's lab.
func (v victim) remains(t *testing.T) []string {
	t.Helper()
	left, err := filepath.Glob("/run/netns/" + v.Name + "-*")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(v.Dir); !errors.Is(err, fs.ErrNotExist) {
		left = append(left, v.Dir)
	}
	for _, pid := range v.PIDs {
		if runs(pid) {
			left = append(left, fmt.Sprint("process ", pid))
		}
	}
	return left
}

// runs reports whether a process has not ended; one that only waits to be reaped
// has no namespaces any more.
func runs(pid int) bool {
	_, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	return err == nil
}

func TestLabOfDeadOwnerIsRemoved(t *testing.T) {
	lab.Require(t)
	v := startVictim(t)
	if got := v.remains(t); len(got) != 6 { // three namespaces, the directory, two processes
		t.Fatalf("the victim's lab has %v", got)
	}
	lab.New(t, lab.Simple(1, 0, 0))
	if got := v.remains(t); len(got) != 6 {
		t.Fatalf("a lab was taken from its living owner; left %v", got)
	}
	v.cmd.Process.Kill()
	v.cmd.Wait()
	lab.New(t, lab.Simple(1, 0, 0))
	testkit.Eventually(t, testkit.Wait, "the dead owner's lab gone", func() bool { return len(v.remains(t)) == 0 })
}

func TestLabIsRemovedOnInterrupt(t *testing.T) {
	lab.Require(t)
	v := startVictim(t)
	if err := v.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	v.cmd.Wait()
	if ws := v.cmd.ProcessState.String(); ws != "signal: interrupt" {
		t.Errorf("the victim ended by %q", ws)
	}
	testkit.Eventually(t, testkit.Wait, "the interrupted lab gone", func() bool { return len(v.remains(t)) == 0 })
}

func TestLabNamed(t *testing.T) {
	testkit.NoLeaks(t)
	lab.Require(t)
	name := fmt.Sprintf("t%d", os.Getpid())
	built, err := lab.Build(name, lab.Simple(1, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { built.Close() })
	if _, err := lab.Build(name, lab.Simple(1, 0, 0)); err == nil || !strings.Contains(err.Error(), "already up") {
		t.Errorf("a second lab of the name: %v", err)
	}
	if labs, err := lab.Standing(); err != nil || labs[name] != 0 {
		t.Errorf("standing: %v, %v", labs, err)
	} else if _, ok := labs[name]; !ok {
		t.Errorf("standing: %v lacks %s", labs, name)
	}
	found, err := lab.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, built.Find("h1"), 80)
	if got, err := ask(t, found.Find("p1"), found.Find("h1").At4(80), lab.Socket{}); err != nil || got != "h1 saw 198.51.100.1" {
		t.Errorf("through the opened lab: %q, %v", got, err)
	}
	if err := found.Close(); err != nil {
		t.Error(err)
	}
	if _, err := lab.Open(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opened after it was closed: %v", err)
	}
}
