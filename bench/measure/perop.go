package measure

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"testing"
	"time"
)

// runtimeCalls are what Go's scheduler and collector call on their own account,
// more or less often as the machine is busy.
var runtimeCalls = []string{
	"futex", "sched_yield", "nanosleep", "clock_nanosleep", "tgkill", "getpid", "rt_sigreturn", "rt_sigprocmask",
	"sigaltstack", "madvise", "mmap", "munmap", "clone", "clone3", "restart_syscall", "timer_settime",
}

// Bounds of the traced run: strace makes a call some ten times as expensive.
const (
	perOpMost  = 500
	perOpLeast = 10
	perOpTime  = 200 * time.Millisecond
)

// PerOp adds the system calls of one op to the figures of b, as the kernel sees
// them: the process is traced by strace(1) while op runs some more times, apart
// from what is timed. tid is the one thread whose calls count, such as a loop's:
// what peers of the test call is left out then. With 0 all threads count, without
// the calls of Go's scheduler. What attaching alone costs is measured and
// deducted. op must return when its work is done.
//
// Where nothing can be traced the figure is missing and b says why; with
// LAB_REQUIRED set b fails.
func PerOp(b *testing.B, tid int, op func()) {
	b.Helper()
	n := 0
	calls, err := traced(b, tid, func() {
		for start := time.Now(); n < perOpMost && (n < perOpLeast || time.Since(start) < perOpTime); n++ {
			op()
		}
	})
	var attaching Calls
	if err == nil {
		attaching, err = traced(b, tid, func() {})
	}
	switch {
	case err == nil:
	case os.Getenv("LAB_REQUIRED") == "" && (errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrPermission)):
		b.Logf("system calls are not counted: %v", err)
		return
	default:
		b.Errorf("system calls per op: %v", err)
		return
	}
	but := runtimeCalls
	if tid != 0 {
		but = nil
	}
	spent := max(0, calls.Total(but...)-attaching.Total(but...))
	b.ReportMetric(float64(spent)/float64(n), "syscalls/op")
}

// traced returns what the thread tid, or with 0 the process, calls while run runs.
func traced(b *testing.B, tid int, run func()) (Calls, error) {
	t, err := startTrace(b.Context(), tid == 0, []int{cmp.Or(tid, os.Getpid())})
	if err != nil {
		return nil, fmt.Errorf("of thread or process %d: %w", cmp.Or(tid, os.Getpid()), err)
	}
	run()
	return t.Stop()
}
