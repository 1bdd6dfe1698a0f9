// Package subject starts what a bench measures, each in the same place and behind
// the same capture rules: nothing at all (the bare wire), bare relays, Sluice,
// HAProxy, nginx, and any other proxy by its path and a description.
//
// Data enters as a Place in a lab; a Running subject leaves: its processes, to be
// measured from the outside. Owns: the subject's processes and files, which end
// with the lab at the latest. Threads: each Running belongs to one goroutine.
package subject

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
)

// Ports on which a subject takes captured traffic in a pod.
const (
	OutPort = 15001 // what the pod sends
	InPort  = 15006 // what comes to the pod
)

// The application of every place listens on AppPorts ports from AppPort on.
const (
	AppPort  = 7000
	AppPorts = 8
)

// Capture modes.
const (
	Direct   = "direct"
	Redirect = "redirect"
)

// startTime is how long a subject may take until it serves.
const startTime = 10 * time.Second

// A Place is where a subject does its work.
type Place struct {
	Lab   *lab.Lab
	Pods  []Pod
	Mode  string // of capture
	Loops int    // threads that the subject may use
	Bin   string // folder of sluice and sluice-redirect
	Self  string // this program, which holds the bare relays

	Profile    string // kind of the profile that Sluice writes of itself; empty means none
	ProfileDir string // where; one folder below it for each process
}

// A Pod is one captured pod of a place.
type Pod struct {
	*lab.Pod
	Upstream string // where a subject sends what comes to OutPort, ADDRESS:PORT, if it can't find out by itself
}

// A Subject can be started.
type Subject interface {
	Name() string
	Note() string            // one line for people
	Serves(mode string) bool // whether it can stand behind this capture mode
	// Check says what is missing on this machine, or nil.
	Check() error
	// Start returns when traffic of all pods of the place goes through the
	// subject. What it started before it failed ends with the lab.
	Start(ctx context.Context, at Place) (*Running, error)
}

// Running is a subject at work.
type Running struct {
	Name      string
	Admin     string // host:port of its admin server in Node's namespace; empty when it has none
	Node      *lab.Space
	OnePort   bool // only the first of the server's ports is reached
	processes []*lab.Process
	stops     []func()
}

// PIDs are the processes whose usage counts, with those that they started.
func (r *Running) PIDs() []int {
	var pids []int
	for _, p := range r.processes {
		pids = append(pids, family(p.PID)...)
	}
	return pids
}

// family is a process and everything that it started.
func family(pid int) []int {
	pids := []int{pid}
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, path := range tasks {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // that thread has ended
		}
		for f := range strings.FieldsSeq(string(b)) {
			if child, err := strconv.Atoi(f); err == nil {
				pids = append(pids, family(child)...)
			}
		}
	}
	return pids
}

// Alive returns nil while all processes run, and else how one ended and what it
// wrote last.
func (r *Running) Alive() error {
	for _, p := range r.processes {
		select {
		case <-p.Done():
			return fmt.Errorf("%s died: %s: %s", r.Name, howEnded(p), lastWords(p))
		default:
		}
	}
	return nil
}

// Stop ends the subject. Its processes need not end in order: the lab is taken
// down behind them.
func (r *Running) Stop() {
	for _, stop := range slices.Backward(r.stops) {
		stop()
	}
	r.stops = nil
}

// Signal sends a signal to all processes.
func (r *Running) Signal(send func(*lab.Process) error) error {
	var faults []error
	for _, p := range r.processes {
		faults = append(faults, send(p))
	}
	return errors.Join(faults...)
}

func howEnded(p *lab.Process) string {
	exit, err := p.Wait(time.Second)
	if err != nil {
		return err.Error()
	}
	return exit.String()
}

func lastWords(p *lab.Process) string {
	text := strings.TrimSpace(p.LogTail(4))
	if text == "" {
		return "it wrote nothing"
	}
	return strings.ReplaceAll(text, "\n", "; ")
}

// until polls until done, the process ends, or time is up.
func until(ctx context.Context, p *lab.Process, what string, done func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-p.Done():
			return fmt.Errorf("%s does not start: %s: %s", p.Name, howEnded(p), lastWords(p))
		case <-ctx.Done():
			return fmt.Errorf("%s: %s: %w: %s", p.Name, what, ctx.Err(), lastWords(p))
		case <-tick.C:
		}
	}
	return nil
}

// listening reports whether the namespace has listeners on the ports.
func listening(s *lab.Space, ports ...int) bool {
	have := make(map[string]bool)
	err := s.Do(func() error {
		for _, path := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
			b, err := os.ReadFile(path)
			if err != nil {
				continue // no IPv6
			}
			for line := range strings.Lines(string(b)) {
				f := strings.Fields(line)
				const local, state, listen = 1, 3, "0A"
				if len(f) > state && f[state] == listen {
					_, port, _ := strings.Cut(f[local], ":")
					have[port] = true
				}
			}
		}
		return nil
	})
	if err != nil {
		return false
	}
	for _, p := range ports {
		if !have[fmt.Sprintf("%04X", p)] {
			return false
		}
	}
	return true
}
