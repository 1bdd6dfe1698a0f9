package measure

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Calls counts system calls by name.
type Calls map[string]int64

// Total is the number of all calls but those named.
func (c Calls) Total(but ...string) int64 {
	var n int64
	for name, v := range c {
		n += v
		for _, b := range but {
			if b == name {
				n -= v
			}
		}
	}
	return n
}

// A Trace counts the system calls of running processes by strace(1).
type Trace struct {
	cmd    *exec.Cmd
	out    string
	ended  chan error
	stderr *tail
}

// traceGrace is how long strace gets to attach, and to let go.
const traceGrace = 15 * time.Second

// StartTrace attaches to the processes, all their threads and those to come.
// It returns once all of them are traced.
func StartTrace(ctx context.Context, pids []int) (*Trace, error) {
	return startTrace(ctx, true, pids)
}

// StartThreadTrace attaches to one thread alone.
func StartThreadTrace(ctx context.Context, tid int) (*Trace, error) {
	return startTrace(ctx, false, []int{tid})
}

func startTrace(ctx context.Context, follow bool, ids []int) (*Trace, error) {
	path, err := exec.LookPath("strace")
	if err != nil {
		return nil, fmt.Errorf("trace: strace is not installed: %w", err)
	}
	f, err := os.CreateTemp("", "strace-*")
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	out := f.Name()
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	args := []string{"-c", "-o", out}
	if follow {
		args = append(args, "-f")
	}
	for _, id := range ids {
		args = append(args, "-p", strconv.Itoa(id))
	}
	t := &Trace{cmd: exec.Command(path, args...), out: out, ended: make(chan error, 1), stderr: new(tail)}
	// In a group of its own an interrupt at the terminal does not reach it: Stop
	// lets it go in order.
	t.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGTERM}
	pipe, err := t.cmd.StderrPipe()
	if err == nil {
		err = t.cmd.Start()
	}
	if err != nil {
		_ = os.Remove(out)
		return nil, fmt.Errorf("trace: %w", err)
	}
	attached := make(chan struct{})
	read := make(chan struct{})
	go t.readMessages(pipe, len(ids), attached, read)
	go func() {
		<-read
		t.ended <- t.cmd.Wait()
	}()
	timer := time.NewTimer(traceGrace)
	defer timer.Stop()
	select {
	case <-attached:
		return t, nil
	case err := <-t.ended:
		t.ended <- err
		err = fmt.Errorf("trace: strace ended: %w: %s", err, t.stderr)
		_ = os.Remove(out)
		return nil, err
	case <-timer.C:
		err = errors.New("trace: strace is not attached in time")
	case <-ctx.Done():
		err = ctx.Err()
	}
	_, stop := t.Stop()
	return nil, errors.Join(err, stop)
}

// readMessages closes attached when strace has said so for n processes.
func (t *Trace) readMessages(r io.Reader, n int, attached, read chan struct{}) {
	defer close(read)
	s := bufio.NewScanner(r)
	for s.Scan() {
		t.stderr.add(s.Text())
		if n > 0 && strings.Contains(s.Text(), " attached") {
			if n--; n == 0 {
				close(attached)
			}
		}
	}
}

// Stop lets the processes go and returns what they called.
func (t *Trace) Stop() (Calls, error) {
	defer os.Remove(t.out)
	if err := t.cmd.Process.Signal(unix.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return nil, fmt.Errorf("trace: stop strace: %w", err)
	}
	timer := time.NewTimer(traceGrace)
	defer timer.Stop()
	select {
	case <-t.ended: // it ends by the signal: the table tells whether all is well
	case <-timer.C:
		_ = t.cmd.Process.Kill()
		<-t.ended
		return nil, fmt.Errorf("trace: strace did not let go within %v: %s", traceGrace, t.stderr)
	}
	b, err := os.ReadFile(t.out)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	return ParseCalls(string(b))
}

// ParseCalls reads the table of strace -c. Columns are found by their heads: the
// one for errors is empty in most rows.
func ParseCalls(table string) (Calls, error) {
	calls := make(Calls)
	inside := false
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case strings.HasPrefix(f[0], "---"):
			inside = true
		case inside && f[len(f)-1] == "total":
			return calls, nil
		case inside:
			if len(f) < 5 || len(f) > 6 {
				return nil, fmt.Errorf("strace table: row %q has %d columns; want 5 or 6", line, len(f))
			}
			n, err := strconv.ParseInt(f[3], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("strace table: row %q: %w", line, err)
			}
			calls[f[len(f)-1]] += n
		}
	}
	if !inside {
		return calls, nil // nothing was called
	}
	return nil, errors.New("strace table: no line with the total")
}
