package node_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// The budgets of a plain flow, of the shipped program as it runs. Raise one only
// in the change that spends it, and say in BENCHMARKS.md what it bought.
const (
	mallocsPerConnection = 1
	mallocsPerBulk       = 200 // over 100 000 exchanges, and over 1 GiB
	callsOut             = 24  // per connection with its own source
	callsIn              = 27  // with the client's
	idleFlows            = 9000
	idleFlowBytes        = 1 << 10 // of RSS
	idleGrowthBytes      = 10 << 20
	idleDescriptors      = 2
)

// mallocs reads how often the program has allocated, and how much of that one
// such reading costs.
func (s *shipped) mallocs() uint64 {
	s.t.Helper()
	var text strings.Builder
	if err := s.get(15000, "/memstats", func(line string) { text.WriteString(line) }); err != nil {
		s.t.Fatal(err)
	}
	var m map[string]uint64
	if err := json.Unmarshal([]byte(text.String()), &m); err != nil {
		s.t.Fatal(err)
	}
	return m["mallocs"]
}

// spent is how often the program allocates while do runs, without the readings.
func (s *shipped) spent(do func()) int64 {
	s.t.Helper()
	s.mallocs()
	first, second := s.mallocs(), s.mallocs()
	do()
	return int64(s.mallocs()-second) - int64(second-first)
}

// echo serves at at until the test ends: what comes is sent back.
func echo(t *testing.T, s *lab.Space, at netip.AddrPort) {
	t.Helper()
	ln, err := s.Listen(at, lab.Socket{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.AcceptTCP()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 4<<10)
				for {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					if _, err := c.Write(buf[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
}

// exchanges has clients at once make conns connections in all, each with n
// exchanges of 100 bytes.
func exchanges(t *testing.T, from *lab.Space, to netip.AddrPort, clients, conns, n int) {
	t.Helper()
	var left atomic.Int64
	left.Store(int64(conns))
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			msg, back := make([]byte, 100), make([]byte, 100)
			for left.Add(-1) >= 0 {
				if err := exchangeOnce(from, to, msg, back, n); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func exchangeOnce(from *lab.Space, to netip.AddrPort, msg, back []byte, n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := from.Dial(ctx, to, lab.Socket{})
	if err != nil {
		return err
	}
	defer c.Close()
	for range n {
		if _, err := c.Write(msg); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, back); err != nil {
			return err
		}
	}
	return nil
}

// TestLabBudgetMallocs counts what the program allocates per connection, and
// over many exchanges and bytes on open ones.
func TestLabBudgetMallocs(t *testing.T) {
	l := lab.New(t, lab.Simple(1, 1, 1))
	s := newShipped(t, settings{loops: 2, noLog: true}, l.Nodes[0])
	pod, host := l.Nodes[0].Pods[0], l.Hosts[0]
	s.enroll(pod)
	echo(t, host.Space, host.At4(7000))
	echo(t, pod.Space, pod.At4(7000))
	const conns = 10000
	both := func(n int) {
		exchanges(t, pod.Space, host.At4(7000), 16, n/2, 1)
		exchanges(t, host.Space, pod.At4(7000), 16, n/2, 1)
	}
	bulk := func(bytes int64) {
		ln, err := host.Listen(host.At4(7001), lab.Socket{})
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		go func() {
			if c, err := ln.Accept(); err == nil {
				defer c.Close()
				if _, err := io.CopyN(c, zeros{}, bytes); err != nil {
					t.Error(err)
				}
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		c, err := pod.Dial(ctx, host.At4(7001), lab.Socket{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if n, err := io.Copy(io.Discard, c); n != bytes || err != nil {
			t.Errorf("received %d bytes, %v", n, err)
		}
	}
	both(2000) // warm-up
	bulk(64 << 20)
	for _, tt := range []struct {
		what  string
		do    func()
		limit int64
	}{
		{"10000 connections", func() { both(conns) }, conns * mallocsPerConnection},
		{"100000 exchanges", func() { exchanges(t, pod.Space, host.At4(7000), 50, 50, 2000) }, mallocsPerBulk},
		{"1 GiB", func() { bulk(1 << 30) }, mallocsPerBulk},
	} {
		got := s.spent(tt.do)
		t.Logf("%s: %d mallocs", tt.what, got)
		if got > tt.limit {
			t.Errorf("%s took %d mallocs; budget %d", tt.what, got, tt.limit)
		}
	}
}

// zeros never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestLabBudgetSystemCalls counts the system calls of the whole process per
// connection: connect, 100 bytes each way, the client closes. The waiting is
// apart: epoll_pwait, and what the runtime does to sleep and wake its threads.
func TestLabBudgetSystemCalls(t *testing.T) {
	l := lab.New(t, lab.Simple(1, 1, 1))
	s := newShipped(t, settings{loops: 2, noLog: true}, l.Nodes[0])
	pod, host := l.Nodes[0].Pods[0], l.Hosts[0]
	s.enroll(pod)
	echo(t, host.Space, host.At4(7000))
	echo(t, pod.Space, pod.At4(7000))
	for _, tt := range []struct {
		name  string
		from  *lab.Space
		to    netip.AddrPort
		limit float64
	}{
		{"own source", pod.Space, host.At4(7000), callsOut},
		{"client's source", host.Space, pod.At4(7000), callsIn},
	} {
		exchanges(t, tt.from, tt.to, 4, 200, 1)
		if total := s.perConnection(t, tt.name, tt.from, tt.to); total > tt.limit {
			t.Errorf("%s: %.2f system calls per connection; budget %.0f", tt.name, total, tt.limit)
		}
	}
}

// monitors are the calls of the runtime's monitor thread, and of the signals by which
// it preempts: they go with the length of a run, which the tracer makes many times
// longer, and not with connections.
var monitors = []string{"nanosleep", "tgkill", "getpid", "rt_sigreturn", "restart_syscall"}

// perConnection is the number of system calls of the program for each of a thousand
// connections: waits, wake-ups by eventfd and the runtime's monitor apart.
func (s *shipped) perConnection(t *testing.T, name string, from *lab.Space, to netip.AddrPort) (own float64) {
	t.Helper()
	const conns = 1000
	calls := s.trace(func() { exchanges(t, from, to, 4, conns, 1) })
	monitor := 0.0
	for call, n := range calls {
		each := float64(n) / conns
		t.Logf("%s: %-16s %6.2f", name, call, each)
		switch {
		case call == "epoll_pwait" || call == "epoll_wait":
		case call == "write": // to an eventfd; what is sent to sockets is not by write
		case call == "read":
			own += each - float64(calls["write"])/conns // each wake-up is read once
		case slices.Contains(monitors, call):
			monitor += each
		default:
			own += each
		}
	}
	t.Logf("%s: %.2f calls per connection, and %.2f of the runtime's monitor", name, own, monitor)
	if calls["accept4"] < conns {
		t.Errorf("%s: %d calls of accept4 for %d connections: the trace has missed some", name, calls["accept4"], conns)
	}
	return own
}

// trace counts the program's system calls while do runs.
func (s *shipped) trace(do func()) map[string]int {
	t := s.t
	t.Helper()
	out := filepath.Join(t.TempDir(), "calls")
	tracer := lab.Start(t, s.node.Space, lab.Program{
		Path: "strace", Args: []string{"-c", "-f", "-U", "name,calls", "-o", out, "-p", strconv.Itoa(s.sluice.PID)},
	})
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", s.sluice.PID))
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, "the tracer to be attached", func() bool {
		return strings.Count(tracer.Log(), "attached")+1 >= min(2, len(tasks)) && tracer.Logged("attached")
	})
	do()
	if _, err := tracer.Stop(lab.SIGINT, patience); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	calls := map[string]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if w := strings.Fields(lines.Text()); len(w) == 2 && w[0] != "total" {
			if n, err := strconv.Atoi(w[1]); err == nil {
				calls[w[0]] = n
			}
		}
	}
	return calls
}

// TestLabBudgetIdleOut and TestLabBudgetIdleIn open thousands of flows and leave
// them alone.
func TestLabBudgetIdleOut(t *testing.T) {
	testIdle(t, func(l *lab.Lab) (from, to *lab.Space) { return l.Nodes[0].Pods[0].Space, l.Hosts[0].Space })
}

func TestLabBudgetIdleIn(t *testing.T) {
	testIdle(t, func(l *lab.Lab) (from, to *lab.Space) { return l.Hosts[0].Space, l.Nodes[0].Pods[0].Space })
}

func testIdle(t *testing.T, way func(*lab.Lab) (from, to *lab.Space)) {
	l := lab.New(t, lab.Simple(1, 1, 1))
	s := newShipped(t, settings{loops: 2, noLog: true}, l.Nodes[0])
	s.enroll(l.Nodes[0].Pods[0])
	from, to := way(l)
	ln, err := to.Listen(to.At4(7000), lab.Socket{})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	open := func(n int) (all []net.Conn) {
		accepted := make(chan net.Conn, n)
		go func() {
			defer close(accepted)
			for range n {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				accepted <- c
			}
		}()
		for range n {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			c, err := from.Dial(ctx, to.At4(7000), lab.Socket{})
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		for c := range accepted {
			all = append(all, c)
		}
		testkit.Eventually(t, patience, "all flows to be open", func() bool { return s.proxy().level(metric.OpenFlows) == int64(n) })
		return all
	}
	closeAll := func(all []net.Conn) {
		for _, c := range all {
			c.Close()
		}
		testkit.Eventually(t, patience, "the flows to end", func() bool { return s.proxy().level(metric.OpenFlows) == 0 })
	}
	closeAll(open(100))
	rss, fds := s.rss(), s.descriptors()
	all := open(idleFlows)
	defer closeAll(all)
	grown, more := s.rss()-rss, s.descriptors()-fds
	t.Logf("%d idle flows: RSS from %d to %d KiB, %d bytes each; %.2f descriptors each", idleFlows, rss>>10, (rss+grown)>>10,
		grown/idleFlows, float64(more)/idleFlows)
	if grown > idleGrowthBytes {
		t.Errorf("RSS grew by %d bytes over %d idle flows; budget %d", grown, idleFlows, idleGrowthBytes)
	}
	if grown/idleFlows > idleFlowBytes {
		t.Errorf("an idle flow takes %d bytes; budget %d", grown/idleFlows, idleFlowBytes)
	}
	if spare := 64; more > idleDescriptors*idleFlows+spare {
		t.Errorf("%d idle flows hold %d descriptors; budget %d each", idleFlows, more, idleDescriptors)
	}
}

// rss is the program's resident memory in bytes.
func (s *shipped) rss() int {
	s.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", s.sluice.PID))
	if err != nil {
		s.t.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	if err != nil {
		s.t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// descriptors is how many the program has open.
func (s *shipped) descriptors() int {
	s.t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.sluice.PID))
	if err != nil {
		s.t.Fatal(err)
	}
	return len(list)
}
