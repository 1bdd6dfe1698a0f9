package measure

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-mesh/sluice/internal/testkit"
)

// shell starts a shell that runs script and waits for a line on its input.
func shell(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", script+"; echo ready; read line")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	b := make([]byte, 16)
	if _, err := out.Read(b); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func TestProcessorTimeIsThatOfTheProcess(t *testing.T) {
	cmd := shell(t, `i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done`)
	got, err := Read(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if got.CPU < 10*time.Millisecond || got.RSS < 1<<18 || got.Descriptors < 3 || got.Threads != 1 || got.Voluntary+got.Involuntary < 1 {
		t.Errorf("usage is %+v", got)
	}
	if d := (got.User + got.System - got.CPU).Abs(); d > 2*tick {
		t.Errorf("user %v and system %v, but %v in all", got.User, got.System, got.CPU)
	}
	again, err := Read(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if d := again.Since(got); d.CPU > 5*time.Millisecond || d.Descriptors != 0 {
		t.Errorf("a process that waits used %+v", d)
	}
	if sum := got.Add(again); sum.Since(again) != got {
		t.Errorf("adding and taking away leaves %+v of %+v", sum.Since(again), got)
	}
}

// burn uses the processor for d, however long it has to wait for it.
func burn(d time.Duration) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := func() (time.Duration, error) {
		var ts unix.Timespec
		err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts)
		return time.Duration(ts.Nano()), err
	}
	start, err := used()
	for now := start; err == nil && now-start < d; {
		now, err = used()
	}
	return err
}

func TestAllThreadsCount(t *testing.T) {
	before, err := Read(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const each = 25 * time.Millisecond
	done := make(chan error)
	for range 2 {
		go func() { done <- burn(each) }()
	}
	if err := errors.Join(<-done, <-done); err != nil {
		t.Fatal(err)
	}
	total := func() time.Duration {
		var own unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &own); err != nil {
			t.Fatal(err)
		}
		return time.Duration(own.Utime.Nano() + own.Stime.Nano())
	}
	low := total()
	after, err := Read(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const apart = 20 * time.Millisecond // the two count in different steps
	if high := total(); after.CPU < low-apart || after.CPU > high+apart {
		t.Errorf("getrusage says %v and then %v, the clock between them %v", low, high, after.CPU)
	}
	if got := after.Since(before).CPU; got < 2*each {
		t.Errorf("two threads that were busy for %v each used %v", each, got)
	}
}

func TestEndedProcessIsGone(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadAll([]int{os.Getpid(), cmd.Process.Pid}); !errors.Is(err, ErrGone) {
		t.Errorf("error is %v; want one that says it is gone", err)
	}
}

func TestTraceCountsCalls(t *testing.T) {
	cmd := exec.Command("sh", "-c", `echo ready; read line; for i in 1 2 3 4 5 6 7; do echo $i; done; echo done; read line`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		in.Close()
		_ = cmd.Wait()
	}()
	readUntil := func(want string) {
		t.Helper()
		var all strings.Builder
		b := make([]byte, 256)
		for !strings.Contains(all.String(), want) {
			n, err := out.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(b[:n])
		}
	}
	readUntil("ready")
	tr, err := StartTrace(t.Context(), []int{cmd.Process.Pid})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("go\n")); err != nil {
		t.Fatal(err)
	}
	readUntil("done")
	// strace counts a call when it has returned, which is after its bytes are here:
	// the shell is through with it once it sleeps in its next read.
	stat := fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid)
	testkit.Eventually(t, 10*time.Second, "the shell to read again", func() bool {
		b, err := os.ReadFile(stat)
		return err == nil && strings.Contains(string(b), ") S ")
	})
	calls, err := tr.Stop()
	if err != nil {
		t.Fatal(err)
	}
	if calls["write"] != 8 || calls.Total("write") != calls.Total()-8 {
		t.Errorf("calls are %v; want 8 of write", calls)
	}
	if _, err := os.Stat(tr.out); !os.IsNotExist(err) {
		t.Errorf("the table is still there: %v", err)
	}
}

func TestTraceOfNobody(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := StartTrace(t.Context(), []int{cmd.Process.Pid}); err == nil || !strings.Contains(err.Error(), "No such process") {
		t.Errorf("error is %v; want one that says so", err)
	}
}

const table = `% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 61.91    0.012345           3      4115           splice
 20.00    0.004000           2      2000      1000 read
------ ----------- ----------- --------- --------- ----------------
100.00    0.016345           2      6115      1000 total
`

func TestParseCalls(t *testing.T) {
	got, err := ParseCalls(table)
	if err != nil || len(got) != 2 || got["splice"] != 4115 || got["read"] != 2000 {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := ParseCalls(""); err != nil || len(got) != 0 {
		t.Errorf("no table: %v, %v", got, err)
	}
	for _, bad := range []string{strings.Replace(table, "4115", "x", 1), table[:strings.LastIndex(table, "-----")], strings.Replace(table, " read", " read of it", 1)} {
		if got, err := ParseCalls(bad); err == nil {
			t.Errorf("%q became %v", bad, got)
		}
	}
}

func TestChildrenInheritTheFileLimit(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	// The soft limit alone is moved, which anybody may.
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 500, Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
			t.Error(err)
		}
	}()
	if err := RaiseFileLimit(600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", "ulimit -n").Output()
	if err != nil || strings.TrimSpace(string(out)) != "600" {
		t.Errorf("a child may open %q, %v; want 600", out, err)
	}
	if err := RaiseFileLimit(1); err != nil {
		t.Errorf("a limit that is there already: %v", err)
	}
}
