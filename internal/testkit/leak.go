// Package testkit is what the tests of many packages share: a leak check,
// golden files, and waiting for an event instead of sleeping.
//
// Data enters as a testing.TB; what is wrong leaves as a failure of that test.
// Owns nothing. Threads: helpers are called from the test's own goroutine.
package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// leakDeadline is how long NoLeaks waits for what is still on its way out.
const leakDeadline = 3 * time.Second

// NoLeaks fails t when, at its end, the process holds a descriptor or runs a
// goroutine that it did not have when NoLeaks was called. Call it first in a
// test: what the test cleans up in its own Cleanup is then gone in time.
//
// Both belong to the process, not to a test, so a test with NoLeaks cannot be
// parallel; t.Parallel panics after it.
func NoLeaks(t testing.TB) {
	t.Helper()
	t.Setenv("TESTKIT_NOLEAKS", "1") // makes t.Parallel panic
	startPoller(t)
	before := takeInventory()
	t.Cleanup(func() {
		if t.Failed() && testing.Verbose() {
			t.Log("testkit: this test had failed before its leaks were counted")
		}
		var left []string
		if poll(leakDeadline, func() bool {
			left = takeInventory().since(before)
			return len(left) == 0
		}) {
			return
		}
		t.Errorf("testkit: %d leaked after %v:\n%s", len(left), leakDeadline, strings.Join(left, "\n"))
	})
}

// startPoller makes the Go runtime open the descriptors of its own poller, which
// it does at the first use and keeps for ever.
func startPoller(t testing.TB) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatalf("testkit: pipe: %v", err)
	}
	r.Close()
	w.Close()
}

// An inventory is what the process holds at one moment.
type inventory struct {
	fds        map[int]string    // descriptor to what it is, as /proc says
	goroutines map[string]string // number to stack
}

func takeInventory() inventory {
	return inventory{fds: openDescriptors(), goroutines: liveGoroutines()}
}

// since describes what is in inv but was not in before.
func (inv inventory) since(before inventory) []string {
	var left []string
	made := sys.OpenFDs()
	for fd, what := range inv.fds {
		if before.fds[fd] == what {
			continue
		}
		line := fmt.Sprintf("descriptor %d, %s", fd, what)
		if stack := made[fd]; stack != "" {
			line += ", put into an FD at\n" + stack
		} else if !sys.Checked {
			line += " (build with -tags checked to see who made it)"
		}
		left = append(left, line)
	}
	for id, stack := range inv.goroutines {
		if _, old := before.goroutines[id]; !old {
			left = append(left, stack)
		}
	}
	return left
}

func openDescriptors() map[int]string {
	const dir = "/proc/self/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		panic(fmt.Sprintf("testkit: list descriptors: %v", err))
	}
	fds := make(map[int]string, len(entries))
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// The descriptor that listed the directory is closed by now.
		if what, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
			fds[n] = what
		}
	}
	return fds
}

// liveGoroutines returns the goroutines that a test can be blamed for.
func liveGoroutines() map[string]string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	live := map[string]string{}
	for stack := range strings.SplitSeq(string(buf), "\n\n") {
		head, _, _ := strings.Cut(stack, "\n")
		id, _, ok := strings.Cut(strings.TrimPrefix(head, "goroutine "), " ")
		// os/signal's goroutine starts at the first Notify and stays.
		if !ok || strings.Contains(stack, "os/signal.loop") {
			continue
		}
		live[id] = stack
	}
	return live
}

// Stacks returns the stacks of all goroutines, for the message of a test that
// waits in vain.
func Stacks() string {
	var b strings.Builder
	for _, stack := range liveGoroutines() {
		b.WriteString(stack)
		b.WriteString("\n\n")
	}
	return b.String()
}
