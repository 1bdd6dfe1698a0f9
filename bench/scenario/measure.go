package scenario

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/bench/load"
	"github.com/sluice-mesh/sluice/bench/measure"
	"github.com/sluice-mesh/sluice/bench/report"
	"github.com/sluice-mesh/sluice/bench/subject"
)

// A measurement is one scenario on one running subject.
type measurement struct {
	*runner
	ground   *ground
	subject  *subject.Running
	scenario Scenario
}

// spareFiles are descriptors that a subject needs besides those of connections.
const spareFiles = 1000

// observed is what one pass saw.
type observed struct {
	load          *load.Result
	begin, end    measure.Usage
	between       time.Duration // of the two readings
	errors        map[string]int64
	before, after *runtimeCounts
}

// take measures, and counts system calls in a second pass.
func (m *measurement) take(ctx context.Context, traced bool) (*report.Sample, error) {
	spec := m.spec()
	seen, err := m.pass(ctx, spec)
	if err != nil {
		return nil, err
	}
	s := &report.Sample{Values: m.values(seen), Errors: seen.errors}
	if pids := m.subject.PIDs(); traced && len(pids) > 0 && spec.Kind != load.Idle {
		if err := m.trace(ctx, spec, pids, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (m *measurement) spec() load.Spec {
	spec := m.scenario.Spec
	ports := subject.AppPorts
	if m.subject.OnePort {
		ports = 1
	}
	spec.To = load.Addrs(m.ground.target, subject.AppPort, ports)
	spec.Seed, spec.Threads = m.opt.Seed, 1
	spec.Warm, spec.Length = m.opt.Timing.Warm, m.opt.Timing.Length
	if limit, err := measure.FileLimit(); err == nil && spec.Kind == load.Idle {
		// One proxy may carry both halves of a path, two descriptors each. Where it
		// may not open as many, there are fewer connections: figures are per connection.
		spec.Conns = min(spec.Conns, int(limit-min(limit, spareFiles))/(2*len(m.ground.pods)))
	}
	return spec
}

// trace runs the load once more under strace. Everything counts, from the first
// connection to the last close.
func (m *measurement) trace(ctx context.Context, spec load.Spec, pids []int, s *report.Sample) error {
	t, err := measure.StartTrace(ctx, pids)
	if err != nil {
		return err
	}
	spec.Warm, spec.Length = 0, m.opt.Timing.Trace
	seen, err := m.pass(ctx, spec)
	calls, stop := t.Stop()
	if err = errors.Join(err, stop); err != nil {
		return err
	}
	unit := ""
	switch spec.Kind {
	case load.Bulk:
		s.Work, unit = float64(max(seen.load.Sent, seen.load.Received))/(1<<20), report.CallsPerMiB
	case load.Churn:
		s.Work, unit = float64(seen.load.Answered), report.CallsPerConn
	case load.Exchange, load.Idle:
		s.Work, unit = float64(seen.load.Answered), report.CallsPerExch
	}
	if s.Work == 0 {
		return errors.New("nothing got through under strace")
	}
	s.Calls = calls
	s.Values[unit] = float64(calls.Total(waits()...)) / s.Work
	for what, n := range seen.errors {
		if s.Errors == nil {
			s.Errors = make(map[string]int64)
		}
		s.Errors["under strace: "+what] += n
	}
	return nil
}

// waits are the calls left out of a total: how often a process waits depends on
// how busy the machine is, and the rest are the Go runtime's own.
func waits() []string {
	return []string{"epoll_wait", "epoll_pwait", "epoll_pwait2", "futex", "nanosleep", "sched_yield", "rt_sigreturn", "rt_sigprocmask", "tgkill", "getpid", "restart_syscall"}
}

// pass starts server and client, reads the subject's usage at both ends of the
// counted time, and collects what both sides saw.
func (m *measurement) pass(ctx context.Context, spec load.Spec) (*observed, error) {
	ctx, cancel := context.WithTimeout(ctx, spec.Warm+spec.Length+2*time.Minute)
	defer cancel()
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	server, err := m.ground.server.Start(lab.Program{Name: "load-server", Path: m.opt.Self, Args: []string{"load", "server", "--spec", string(text)}})
	if err != nil {
		return nil, err
	}
	if err := ready(ctx, server); err != nil {
		return nil, err
	}
	seen := new(observed)
	if err := m.client(ctx, string(text), seen); err != nil {
		return nil, errors.Join(err, m.subject.Alive())
	}
	if err := m.subject.Alive(); err != nil {
		return nil, err
	}
	res, err := stopServer(server)
	if err != nil {
		return nil, err
	}
	seen.collect(spec, res)
	return seen, nil
}

// client runs the client to its end. When the subject dies it is ended early:
// nothing good can come any more.
func (m *measurement) client(ctx context.Context, spec string, seen *observed) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over := make(chan struct{})
	defer close(over)
	go m.watch(over, cancel)

	cmd := m.ground.client.Command(ctx, m.opt.Self, "load", "client", "--spec", spec)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("load client: %w", err)
	}
	var faults []error
	var began time.Time
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e load.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			faults = append(faults, fmt.Errorf("load client says %q: %w", lines.Text(), err))
			break
		}
		switch e.Event {
		case load.EventBegin:
			began = time.Now()
			seen.begin, err = measure.ReadAll(m.subject.PIDs())
			faults = append(faults, err)
			seen.before = m.runtime(ctx)
		case load.EventEnd:
			seen.end, err = measure.ReadAll(m.subject.PIDs())
			seen.between = time.Since(began)
			faults = append(faults, err)
			seen.after = m.runtime(ctx)
		case load.EventResult:
			seen.load = e.Result
		}
	}
	faults = append(faults, lines.Err())
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		faults = append(faults, fmt.Errorf("load client: %w: %s", err, strings.TrimSpace(stderr.String())))
	}
	if seen.load == nil {
		faults = append(faults, errors.New("load client ended without a result"))
	}
	return errors.Join(faults...)
}

// watch ends the client when the subject is gone.
func (m *measurement) watch(over <-chan struct{}, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
			if err := m.subject.Alive(); err != nil {
				cancel(err)
				return
			}
		}
	}
}

func ready(ctx context.Context, server *lab.Process) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !server.Logged(`"event":"` + load.EventReady) {
		select {
		case <-server.Done():
			return fmt.Errorf("load server does not start: %s", strings.TrimSpace(server.Log()))
		case <-ctx.Done():
			return fmt.Errorf("load server does not listen: %w", ctx.Err())
		case <-tick.C:
		}
	}
	return nil
}

// stopServer ends the server and reads its last line.
func stopServer(server *lab.Process) (*load.Result, error) {
	if _, err := server.Stop(lab.SIGTERM, 10*time.Second); err != nil {
		return nil, fmt.Errorf("load server: %w", err)
	}
	var res *load.Result
	for line := range strings.Lines(server.Log()) {
		var e load.Event
		if json.Unmarshal([]byte(line), &e) == nil && e.Event == load.EventResult {
			res = e.Result
		}
	}
	if res == nil {
		return nil, fmt.Errorf("load server ended without a result: %s", strings.TrimSpace(server.LogTail(3)))
	}
	return res, nil
}

// collect joins the errors of both sides.
func (o *observed) collect(spec load.Spec, server *load.Result) {
	o.errors = make(map[string]int64)
	for what, n := range o.load.Errors {
		o.errors["client: "+what] += n
	}
	for what, n := range server.Errors {
		o.errors["server: "+what] += n
	}
	if spec.Kind == load.Bulk && !spec.Down && len(o.errors) == 0 && o.load.Sent != server.Received {
		o.errors["bytes sent and not received"] += o.load.Sent - server.Received
	}
}
