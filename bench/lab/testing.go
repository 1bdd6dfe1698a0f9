package lab

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// Require skips t where no lab can be built. With LAB_REQUIRED set it fails
// instead: a job that exists to run these tests must not pass by running none.
func Require(t testing.TB) {
	t.Helper()
	err := usable()
	switch {
	case err == nil:
		return
	case os.Getenv("LAB_REQUIRED") != "":
		t.Fatalf("lab required, but: %v", err)
	case errors.Is(err, sys.ErrUnsupported), errors.Is(err, fs.ErrPermission):
		t.Skipf("no lab here: %v; as another user: make lab", err)
	default:
		t.Fatalf("lab broken: %v", err)
	}
}

// usable reports why this process cannot make network namespaces, or nil.
func usable() error {
	done := make(chan error, 1)
	go func() { done <- tryUnshare() }()
	if err := <-done; err != nil {
		return fmt.Errorf("make a network namespace: %w; it needs root's rights", err)
	}
	unlock, err := lockState()
	if err != nil {
		return err
	}
	defer unlock()
	return prepareNetnsDir()
}

func tryUnshare() error {
	runtime.LockOSThread()
	home, err := sys.ThreadNamespace()
	if err != nil {
		return err
	}
	defer home.Close()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread() // it is where it was
		if err == unix.ENOSYS || err == unix.EINVAL {
			return fmt.Errorf("%w: %w", sys.ErrUnsupported, err)
		}
		return err
	}
	if err := sys.Setns(home); err != nil {
		return err
	}
	runtime.UnlockOSThread()
	return nil
}

// New builds a lab that lives as long as the test. When the test fails, the last
// lines that each program wrote are logged. An interrupt takes the lab down
// before it ends the process.
func New(t testing.TB, want Topology) *Lab {
	t.Helper()
	Require(t)
	l, err := Build("", want)
	if err != nil {
		t.Fatal(err)
	}
	stop := closeOnSignal()
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			l.logTails(t, 40)
		}
		if err := l.Close(); err != nil {
			t.Errorf("close lab: %v", err)
		}
	})
	return l
}

// logTails logs the end of each program's output.
func (l *Lab) logTails(t testing.TB, lines int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.processes {
		state := "runs"
		select {
		case <-p.done:
			state = p.exit.String()
		default:
		}
		t.Logf("%s in %s (process %d, %s) wrote:\n%s", p.Name, p.space.Name, p.PID, state, p.LogTail(lines))
	}
}

// Start is Space.Start for tests: an error ends the test.
func Start(t testing.TB, s *Space, p Program) *Process {
	t.Helper()
	proc, err := s.Start(p)
	if err != nil {
		t.Fatal(err)
	}
	return proc
}

// Output is Space.Output for tests: an error ends the test.
func Output(t testing.TB, s *Space, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), toolTimeout)
	defer cancel()
	text, err := s.Output(ctx, program, args...)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Binary returns the path of one of our programs, such as "sluice". It is looked
// for in the directory SLUICE_BIN, which the test gate sets to the build that the
// test wants, or else in bin below the module's root.
func Binary(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("SLUICE_BIN")
	if dir == "" {
		root, err := moduleRoot()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(root, "bin")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("program %s: %v; make build build-checked", name, err)
	}
	return path
}

// moduleRoot is the nearest directory above with a go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working directory; set SLUICE_BIN")
		}
		dir = up
	}
}
