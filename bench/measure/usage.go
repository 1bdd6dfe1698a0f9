// Package measure reads what a process uses: processor time, memory, switches,
// descriptors and system calls.
//
// Data enters as process numbers; plain values leave. All of it is read from the
// outside, so that what is measured does nothing for it; only a Trace stops the
// process at each system call, and is a pass of its own for that reason.
//
// Owns: the strace process of each Trace, until Stop. Threads: any goroutine.
package measure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrGone is wrapped when a process has ended.
var ErrGone = errors.New("the process has ended")

// Usage is what a process used since its start, or between two readings.
type Usage struct {
	CPU         time.Duration // of all its threads, ended ones too, to the nanosecond
	User        time.Duration // in ticks of 10 ms
	System      time.Duration
	RSS         int64 // bytes at the moment; between two readings, the growth
	Voluntary   int64 // context switches because it waited
	Involuntary int64
	Descriptors int64
	Threads     int64
}

// Add adds what another process used.
func (u Usage) Add(o Usage) Usage {
	u.CPU += o.CPU
	u.User += o.User
	u.System += o.System
	u.RSS += o.RSS
	u.Voluntary += o.Voluntary
	u.Involuntary += o.Involuntary
	u.Descriptors += o.Descriptors
	u.Threads += o.Threads
	return u
}

// Since is what was used after the earlier reading o.
func (u Usage) Since(o Usage) Usage {
	u.CPU -= o.CPU
	u.User -= o.User
	u.System -= o.System
	u.RSS -= o.RSS
	u.Voluntary -= o.Voluntary
	u.Involuntary -= o.Involuntary
	u.Descriptors -= o.Descriptors
	u.Threads -= o.Threads
	return u
}

// Read reads one process. The processor time comes first: it is the figure that
// must fit the moment best.
func Read(pid int) (Usage, error) {
	var u Usage
	if err := u.read(pid); err != nil {
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
			err = errors.Join(ErrGone, err)
		}
		return Usage{}, fmt.Errorf("read usage of process %d: %w", pid, err)
	}
	return u, nil
}

// ReadAll adds up several processes.
func ReadAll(pids []int) (Usage, error) {
	var sum Usage
	for _, pid := range pids {
		u, err := Read(pid)
		if err != nil {
			return Usage{}, err
		}
		sum = sum.Add(u)
	}
	return sum, nil
}

func (u *Usage) read(pid int) error {
	var ts unix.Timespec
	if err := unix.ClockGettime(cpuClock(pid), &ts); err != nil {
		return fmt.Errorf("processor clock: %w", err)
	}
	u.CPU = time.Duration(ts.Nano())
	dir := "/proc/" + strconv.Itoa(pid)
	if err := u.stat(dir + "/stat"); err != nil {
		return err
	}
	fds, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return err
	}
	u.Descriptors = int64(len(fds))
	return u.switches(dir + "/task")
}

// cpuClock is the clock of a process's processor time: CPUCLOCK_SCHED of
// include/linux/posix-timers_types.h. It counts in nanoseconds, where utime and
// stime of /proc count in ticks.
func cpuClock(pid int) int32 { return int32(^uint32(pid)<<3 | 2) }

// tick is the unit of utime and stime: USER_HZ, 100 on amd64 and arm64.
const tick = 10 * time.Millisecond

func (u *Usage) stat(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	// The name, in brackets, may hold anything; the fields begin behind it.
	end := strings.LastIndexByte(string(b), ')')
	fields := strings.Fields(string(b[end+1:]))
	const utime, stime, threads, rss = 11, 12, 17, 21 // numbers of proc(5) less 3
	if end < 0 || len(fields) <= rss {
		return fmt.Errorf("%s has %d fields; want more than %d", path, len(fields), rss)
	}
	var faults []error
	num := func(i int) int64 {
		v, err := strconv.ParseInt(fields[i], 10, 64)
		faults = append(faults, err)
		return v
	}
	u.User = time.Duration(num(utime)) * tick
	u.System = time.Duration(num(stime)) * tick
	u.Threads = num(threads)
	u.RSS = num(rss) * int64(os.Getpagesize())
	return errors.Join(faults...)
}

// switches adds the switches of all threads. One that ends meanwhile is left
// out.
func (u *Usage) switches(dir string) error {
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		b, err := os.ReadFile(filepath.Join(dir, t.Name(), "status"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			key, value, _ := strings.Cut(line, ":")
			var to *int64
			switch key {
			case "voluntary_ctxt_switches":
				to = &u.Voluntary
			case "nonvoluntary_ctxt_switches":
				to = &u.Involuntary
			default:
				continue
			}
			n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
			if err != nil {
				return fmt.Errorf("thread %s: %w", t.Name(), err)
			}
			*to += n
		}
	}
	return nil
}
