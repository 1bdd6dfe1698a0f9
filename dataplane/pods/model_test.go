package pods_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/pods"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"google.golang.org/protobuf/proto"
	zdsapi "istio.io/istio/pkg/zdsapi"
)

// host is a small working model of a node: each pod that it starts has one real
// listener inside its namespace, on the port where outbound traffic arrives, and
// as many flows as the test says.
type host struct {
	mu     sync.Mutex
	starts []pods.Pod
	up     map[string]*served // the last one started, by uid
	ending bool               // Stopping was called
}

type served struct {
	pod  pods.Pod
	id   sys.NamespaceID
	l    net.Listener
	done chan struct{}

	mu     sync.Mutex
	host   *host
	limits []time.Duration // of each Drain
	ending []bool          // whether the host was stopping, at each Drain
	flows  int
	ended  bool
}

func (h *host) Start(_ context.Context, p pods.Pod, ns *netns.Handle) (pods.Running, error) {
	defer ns.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.starts = append(h.starts, p)
	s := &served{host: h, pod: p, id: ns.ID(), done: make(chan struct{})}
	var err error
	if s.l, err = listen(ns); err != nil {
		return nil, err
	}
	if h.up == nil {
		h.up = map[string]*served{}
	}
	h.up[p.UID] = s
	return s, nil
}

func listen(ns *netns.Handle) (l net.Listener, err error) {
	err = ns.Do(func() error {
		l, err = net.Listen("tcp4", "0.0.0.0:15001")
		return err
	})
	return l, err
}

func (h *host) last(uid string) *served {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.up[uid]
}

func (h *host) Stopping() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ending = true
}

func (h *host) isStopping() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ending
}

func (h *host) started() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.starts)
}

func (s *served) Drain(limit time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.l.Close()
	s.limits = append(s.limits, limit)
	s.ending = append(s.ending, s.host.isStopping())
	s.endLocked()
}

func (s *served) endLocked() {
	if len(s.limits) > 0 && s.flows == 0 && !s.ended {
		s.ended = true
		close(s.done)
	}
}

func (s *served) Done() <-chan struct{} { return s.done }

// flow changes the number of open flows.
func (s *served) flow(by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flows += by
	s.endLocked()
}

func (s *served) drains() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Duration(nil), s.limits...)
}

func (s *served) endings() []bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]bool(nil), s.ending...)
}

func namespace(t *testing.T) *netns.Handle {
	t.Helper()
	fd, err := sys.NewNamespace()
	if err != nil {
		t.Fatal(err)
	}
	ns, err := netns.New(fd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	return ns
}

// occupy takes the port of the model's listener, so that the pod can't start.
func occupy(t *testing.T, ns *netns.Handle) net.Listener {
	t.Helper()
	l, err := listen(ns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// agent is a scripted peer. It listens for the proxy, and every byte that it
// sends was made by Istio's own types.
type agent struct {
	t *testing.T
	l *net.UnixListener
	c *net.UnixConn
}

func newAgent(t *testing.T) *agent {
	t.Helper()
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: filepath.Join(t.TempDir(), "z.sock")})
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{t: t, l: l}
	t.Cleanup(func() { a.hangUp(); l.Close() })
	return a
}

func (a *agent) socket() string { return a.l.Addr().String() }

// accept waits for the proxy to connect and to say hello.
func (a *agent) accept() {
	a.t.Helper()
	a.l.SetDeadline(time.Now().Add(testkit.Wait))
	c, err := a.l.AcceptUnix()
	if err != nil {
		a.t.Fatalf("proxy does not connect: %v", err)
	}
	a.hangUp()
	a.c = c
	var hello zdsapi.ZdsHello
	a.read(&hello)
	if hello.GetVersion() != zdsapi.Version_V1 {
		a.t.Fatalf("hello is %v; want V1", &hello)
	}
}

func (a *agent) hangUp() {
	if a.c != nil {
		a.c.Close()
	}
}

func (a *agent) read(m proto.Message) {
	a.t.Helper()
	buf := make([]byte, 1024)
	a.c.SetReadDeadline(time.Now().Add(testkit.Wait))
	n, _, err := sys.ReceivePacket(a.c, buf)
	if err != nil {
		a.t.Fatalf("no %T from the proxy: %v", m, err)
	}
	if err := proto.Unmarshal(buf[:n], m); err != nil {
		a.t.Fatalf("Istio can't read what the proxy sent: %v", err)
	}
}

func (a *agent) send(m proto.Message, fds ...*sys.FD) {
	a.t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		a.t.Fatal(err)
	}
	if err := sys.SendPacket(a.c, b, fds...); err != nil {
		a.t.Fatal(err)
	}
}

// answer waits for the ack and returns its error.
func (a *agent) answer() string {
	a.t.Helper()
	var r zdsapi.WorkloadResponse
	a.read(&r)
	if r.GetAck() == nil {
		a.t.Fatalf("answer is %v; want an ack", &r)
	}
	return r.GetAck().GetError()
}

func (a *agent) ask(m proto.Message, fds ...*sys.FD) string {
	a.t.Helper()
	a.send(m, fds...)
	return a.answer()
}

// ok asks and wants an ack without an error.
func (a *agent) ok(m proto.Message, fds ...*sys.FD) {
	a.t.Helper()
	if failure := a.ask(m, fds...); failure != "" {
		a.t.Fatalf("%v was answered with %q; want an ack", m, failure)
	}
}

// closed waits until the proxy has hung up.
func (a *agent) closed() {
	a.t.Helper()
	a.c.SetReadDeadline(time.Now().Add(testkit.Wait))
	if n, _, err := sys.ReceivePacket(a.c, make([]byte, 1024)); err == nil {
		a.t.Fatalf("proxy sent %d bytes instead of closing", n)
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		a.t.Fatal("proxy keeps the connection")
	}
}

func add(uid string) *zdsapi.WorkloadRequest {
	return &zdsapi.WorkloadRequest{Payload: &zdsapi.WorkloadRequest_Add{Add: &zdsapi.AddWorkload{
		Uid:          uid,
		WorkloadInfo: &zdsapi.WorkloadInfo{Name: "name-" + uid, Namespace: "ns", ServiceAccount: "sa"},
	}}}
}

func addWithoutInfo(uid string) *zdsapi.WorkloadRequest {
	return &zdsapi.WorkloadRequest{Payload: &zdsapi.WorkloadRequest_Add{Add: &zdsapi.AddWorkload{Uid: uid}}}
}

func keep(uid string) *zdsapi.WorkloadRequest {
	return &zdsapi.WorkloadRequest{Payload: &zdsapi.WorkloadRequest_Keep{Keep: &zdsapi.KeepWorkload{Uid: uid}}}
}

func del(uid string) *zdsapi.WorkloadRequest {
	return &zdsapi.WorkloadRequest{Payload: &zdsapi.WorkloadRequest_Del{Del: &zdsapi.DelWorkload{Uid: uid}}}
}

func snapshotSent() *zdsapi.WorkloadRequest {
	return &zdsapi.WorkloadRequest{Payload: &zdsapi.WorkloadRequest_SnapshotSent{SnapshotSent: &zdsapi.SnapshotSent{}}}
}

// bench is a manager under test between its model host and a scripted agent.
type bench struct {
	*agent
	m    *pods.Manager
	h    *host
	stop context.CancelFunc
	end  chan error // what Run returned
}

// quick has waits that a test can sit out, and a retry that does not come.
var quick = pods.Config{
	Modes: []string{"direct"}, Retry: time.Hour,
	BackoffMin: time.Millisecond, BackoffMax: 10 * time.Millisecond,
	PodDrain: time.Hour, ProcessDrain: 200 * time.Millisecond,
}

// start runs a manager and takes it down at the end of the test.
func start(t *testing.T, cfg pods.Config) *bench {
	t.Helper()
	lab.Require(t)
	testkit.NoLeaks(t)
	b := &bench{agent: newAgent(t), h: &host{}, end: make(chan error, 1)}
	cfg.Socket = b.socket()
	var err error
	if b.m, err = pods.New(cfg, b.h, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.stop = cancel
	finished := make(chan struct{})
	go func() { b.end <- b.m.Run(ctx); close(finished) }()
	t.Cleanup(func() {
		cancel()
		testkit.Receive(t, testkit.Wait, "end of the manager", wrap(finished))
	})
	b.accept()
	return b
}

func wrap(closed <-chan struct{}) <-chan bool {
	ch := make(chan bool, 1)
	go func() { <-closed; ch <- true }()
	return ch
}

// states lists uid and state of every pod, in order.
func (b *bench) states() string {
	var all strings.Builder
	for _, s := range b.m.Snapshot() {
		all.WriteString(s.Pod.UID + ":" + s.State.String() + " ")
	}
	return all.String()
}

// want waits for the pods to be in these states.
func (b *bench) want(states string) {
	b.t.Helper()
	testkit.Eventually(b.t, testkit.Wait, "pods to be "+states+"instead of "+b.states(), func() bool { return b.states() == states })
}

func (b *bench) ready(want bool) {
	b.t.Helper()
	if got := b.m.Ready(); got != want {
		b.t.Errorf("ready is %v; want %v (%s)", got, want, b.states())
	}
}
