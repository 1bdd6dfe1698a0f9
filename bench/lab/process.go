package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// Signals for a Process.
const (
	SIGTERM = unix.SIGTERM
	SIGINT  = unix.SIGINT
	SIGQUIT = unix.SIGQUIT
	SIGHUP  = unix.SIGHUP
	SIGKILL = unix.SIGKILL
	SIGSTOP = unix.SIGSTOP
	SIGCONT = unix.SIGCONT
	SIGUSR1 = unix.SIGUSR1
	SIGUSR2 = unix.SIGUSR2
)

// A Program says what to start.
type Program struct {
	Name string   // of its log; empty means the last part of Path
	Path string   // or a name to be looked up
	Args []string // without the name
	Env  []string // besides this process's own
	Dir  string
}

// A Process is a program that runs inside a lab. The lab ends it at the latest.
type Process struct {
	Name    string
	PID     int
	LogPath string // standard output and standard error

	space *Space
	cmd   *exec.Cmd
	done  chan struct{} // closed once exit is set
	exit  Exit
}

// An Exit is how a process ended and what it used.
type Exit struct {
	Code         int            // -1 when a signal ended it
	Signal       syscall.Signal // 0 when it exited
	User, System time.Duration
	MaxRSS       int64 // bytes
}

func (e Exit) String() string {
	if e.Signal != 0 {
		return "ended by " + e.Signal.String()
	}
	return fmt.Sprintf("exit status %d", e.Code)
}

// Start starts a program inside the namespace. Its output goes to a file.
func (s *Space) Start(p Program) (*Process, error) {
	if p.Name == "" {
		p.Name = filepath.Base(p.Path)
	}
	log, err := s.openLog(p.Name)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(p.Path, p.Args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, p.Dir
	cmd.Env = append(os.Environ(), p.Env...)
	proc := &Process{Name: p.Name, LogPath: log.Name(), space: s, cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go proc.run(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s: start %s: %w", s.Name, p.Name, err)
	}
	if err := s.lab.remember(proc); err != nil {
		return nil, errors.Join(err, proc.end())
	}
	return proc, nil
}

// openLog makes a file for the output of a program; the second one of a name
// gets a number.
func (s *Space) openLog(name string) (*os.File, error) {
	for n := 1; ; n++ {
		path := filepath.Join(s.Dir, name+".log")
		if n > 1 {
			path = filepath.Join(s.Dir, fmt.Sprintf("%s.%d.log", name, n))
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o644)
		if !errors.Is(err, os.ErrExist) {
			return f, err
		}
	}
}

// run forks on a thread that has entered the namespace and stays on that thread
// until the child has ended: Pdeathsig is sent when the parent's thread ends, not
// its process (prctl(2)), so the thread must outlive the child. It is unlocked
// only when it is back home.
func (p *Process) run(started chan<- error) {
	runtime.LockOSThread()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	home, err := p.fork()
	if err != nil {
		started <- err
	} else {
		p.PID = p.cmd.Process.Pid
		started <- nil
		p.exit = exitOf(p.cmd)
		close(p.done)
	}
	if home {
		runtime.UnlockOSThread()
	}
}

// fork starts the command inside and reports whether the thread is home again.
func (p *Process) fork() (home bool, err error) {
	own, err := sys.ThreadNamespace()
	if err != nil {
		return true, err
	}
	defer own.Close()
	if err := sys.Setns(p.space.handle.FD()); err != nil {
		return true, err
	}
	err = p.cmd.Start()
	return sys.Setns(own) == nil, err
}

// exitOf waits for the end of a started command.
func exitOf(cmd *exec.Cmd) Exit {
	if err := cmd.Wait(); cmd.ProcessState == nil {
		panic(fmt.Sprintf("lab: wait for process %d: %v", cmd.Process.Pid, err)) // it is our child: the kernel knows it
	}
	st := cmd.ProcessState
	e := Exit{Code: st.ExitCode(), User: st.UserTime(), System: st.SystemTime()}
	if ws, ok := st.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.Signal = ws.Signal()
	}
	if ru, ok := st.SysUsage().(*syscall.Rusage); ok {
		e.MaxRSS = ru.Maxrss << 10 // the kernel counts KiB (getrusage(2))
	}
	return e
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Signal sends a signal; to an ended process it reports os.ErrProcessDone.
func (p *Process) Signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("%s: send %v to %s (process %d): %w", p.space.Name, sig, p.Name, p.PID, err)
	}
	return nil
}

// Wait returns how the process ended. When it still runs after the time, the
// error says so and the process goes on.
func (p *Process) Wait(within time.Duration) (Exit, error) {
	select {
	case <-p.done:
		return p.exit, nil
	case <-time.After(within):
		return Exit{}, fmt.Errorf("%s: %s (process %d) still runs after %v", p.space.Name, p.Name, p.PID, within)
	}
}

// Stop sends a signal and waits for the end. A process that still runs after the
// time is killed, and the error says so.
func (p *Process) Stop(sig syscall.Signal, within time.Duration) (Exit, error) {
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return Exit{}, err
	}
	exit, err := p.Wait(within)
	if err != nil {
		return exit, errors.Join(fmt.Errorf("after %v: %w; killed", sig, err), p.end())
	}
	return exit, nil
}

// end kills the process if it still runs and waits until it is gone.
func (p *Process) end() error {
	if err := p.Signal(unix.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	_, err := p.Wait(10 * time.Second)
	return err
}

// Log returns what the process has written so far.
func (p *Process) Log() string {
	text, err := os.ReadFile(p.LogPath)
	if err != nil {
		return "log lost: " + err.Error()
	}
	return string(text)
}

// LogTail returns the last n lines.
func (p *Process) LogTail(n int) string {
	lines := strings.Split(strings.TrimRight(p.Log(), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Logged reports whether the process has written text.
func (p *Process) Logged(text string) bool {
	return bytes.Contains([]byte(p.Log()), []byte(text))
}
