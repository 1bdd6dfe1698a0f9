package admin_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/admin"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/logs"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// model is a small working model of a node: its loops are Sets, its flows a list.
type model struct {
	mu      sync.Mutex
	pending []string
	loops   []*metric.Set // nil for one that hangs
	flows   []flow.Info
	pods    []admin.Pod
	quits   int
	levels  *logs.Levels
}

var errHangs = errors.New("1 of 2 loops did not answer within 2s")

func (m *model) Pending() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.pending...)
}

func (m *model) answeredLocked() error {
	if slices.Contains(m.loops, nil) {
		return errHangs
	}
	return nil
}

func (m *model) Counters() ([]*metric.Set, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]*metric.Set(nil), m.loops...), m.answeredLocked()
}

func (m *model) Flows(limit int) ([]flow.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.flows[:min(limit, len(m.flows))], m.answeredLocked()
}

func (m *model) Open() int { return len(m.flows) }

func (m *model) Pods() []admin.Pod { return m.pods }

func (m *model) Samples() []admin.Sample {
	return []admin.Sample{
		{Name: "workload_manager_active_proxy_count", Help: "Pods that are served.", Value: 2},
		{Name: "sluice_pods_refused_total", Help: "Pods.", Counter: true, Value: 3},
	}
}

func (m *model) quit() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.quits++
}

// asked is the model as the servers ask it.
func (m *model) asked() admin.Node {
	return admin.Node{
		Traffic: m, State: m, Quit: m.quit, Levels: m.levels, Config: map[string]any{"loops": 2, "drain": "5s"},
		Build: admin.Build{Version: "v1", Revision: "abc", Status: "Clean", Istio: `1.2 "x"`, Go: "go1"},
	}
}

// newModel has two loops, two flows, and a pod in each state.
func newModel(t *testing.T) *model {
	t.Helper()
	levels, err := logs.ParseLevels("access=warn,info")
	if err != nil {
		t.Fatal(err)
	}
	n := &model{loops: []*metric.Set{{}, {}}, levels: levels}
	for i, s := range n.loops {
		s.Add(metric.UpBytes, uint64(100*(i+1)))
		s.Move(metric.OpenFlows, 1)
	}
	n.loops[0].Opened[flow.Outbound] = 5
	n.loops[1].Opened[flow.Inbound] = 3
	n.loops[1].Closed[flow.Outbound][flow.CloseEOF] = 1
	n.loops[1].Closed[flow.Outbound][flow.CloseClientReset] = 1
	n.loops[0].Closed[flow.Outbound][flow.CloseRefused] = 2
	n.loops[0].Closed[flow.Inbound][flow.CloseDrain] = 2
	n.loops[0].Up[flow.Outbound], n.loops[1].Up[flow.Outbound], n.loops[1].Down[flow.Inbound] = 1, 2, 4
	pod := &flow.Pod{UID: "u", Name: "web-1", Namespace: "shop", ServiceAccount: "sa"}
	at := netip.MustParseAddrPort
	n.flows = []flow.Info{
		{
			ID: 7, Pod: pod, Path: flow.Outbound, Tuple: flow.Tuple{Client: at("192.0.2.1:40000"), Dst: at("198.51.100.2:80")},
			Upstream: at("198.51.100.2:80"), State: "relaying", Age: 1500 * time.Millisecond,
			Counts: flow.Counts{Up: 10, Down: 1 << 20, DownSpliced: 1 << 20}, DownSplicing: true, UpEnded: true, DownPipe: 4096,
		},
		{
			ID: 8, Pod: pod, Path: flow.Inbound, Tuple: flow.Tuple{Client: at("[2001:db8::1]:40000"), Dst: at("[2001:db8::2]:80")},
			Upstream: at("[2001:db8::2]:80"), Source: at("[2001:db8::1]:16384"), State: "dialing", Loop: 1,
		},
	}
	since := time.Date(2026, 8, 20, 10, 11, 12, 0, time.UTC)
	n.pods = []admin.Pod{
		{Pod: *pod, State: "Up", Since: since, Netns: "net:[4:1]"},
		{Pod: *pod, State: "Draining", Since: since.Add(-time.Hour), Netns: "net:[4:0]"},
		{Pod: flow.Pod{UID: "v", Name: "web-2", Namespace: "shop", ServiceAccount: "sa"}, State: "Pending", Since: since, Netns: "net:[4:2]", LastErr: "listen: no"},
		{Pod: flow.Pod{UID: "w", Name: "old", Namespace: "shop", ServiceAccount: "sa"}, State: "Draining", Since: since, Netns: "net:[4:3]"},
	}
	return n
}

// client asks the three servers of one node.
type client struct {
	t                     *testing.T
	drain                 func()
	http                  http.Client
	admin, metrics, ready string
}

// serve runs the servers until the test ends.
func serve(t *testing.T, m *model) *client {
	t.Helper()
	testkit.NoLeaks(t)
	cfg := admin.Config{Admin: "127.0.0.1:0", Metrics: "127.0.0.1:0", Ready: "127.0.0.1:0"}
	s, err := admin.Listen(cfg, m.asked(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	drain, cancelDrain := context.WithCancel(t.Context())
	end, cancelEnd := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.Serve(drain, end); close(done) }()
	c := &client{t: t, drain: cancelDrain, admin: "http://" + s.Addr("admin"), metrics: "http://" + s.Addr("metrics"), ready: "http://" + s.Addr("readiness")}
	c.http.Timeout = testkit.Wait
	t.Cleanup(func() {
		c.http.CloseIdleConnections()
		cancelDrain()
		cancelEnd()
		<-done
	})
	return c
}

// ask returns the status, the media type and the text of an answer.
func (c *client) ask(method, url string) (int, string, string) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, url, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := c.http.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	media, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	return r.StatusCode, media, string(text)
}
