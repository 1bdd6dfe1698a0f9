package admin_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/admin"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

func TestReady(t *testing.T) {
	n := newModel(t)
	c := serve(t, n)
	for _, tt := range []struct {
		pending []string
		method  string
		path    string
		status  int
		text    string
	}{
		{nil, "GET", "/healthz/ready", 200, "ready\n"},
		{nil, "HEAD", "/healthz/ready", 405, ""},
		{[]string{"b", "a"}, "GET", "/healthz/ready", 500, "not ready, pending: a, b\n"},
		{nil, "POST", "/healthz/ready", 405, ""},
		{nil, "GET", "/", 404, ""},
		{nil, "GET", "/healthz", 404, ""},
		{nil, "GET", "/healthz/ready/", 404, ""},
	} {
		n.mu.Lock()
		n.pending = tt.pending
		n.mu.Unlock()
		if status, _, text := c.ask(tt.method, c.ready+tt.path); status != tt.status || text != tt.text {
			t.Errorf("%s %s with %q: %d %q; want %d %q", tt.method, tt.path, tt.pending, status, text, tt.status, tt.text)
		}
	}
}

// Every page of the admin port: status, media type, and how the text begins.
func TestPeople(t *testing.T) {
	n := newModel(t)
	c := serve(t, n)
	for _, tt := range []struct {
		method, path string
		status       int
		media        string
		text         string // begins the answer; "" is an empty one
	}{
		{"GET", "/", 200, "text/html", "<!doctype html>"},
		{"GET", "/flows", 200, "text/plain", "POD "},
		{"GET", "/flows?format=json", 200, "application/json", "{\n"},
		{"GET", "/flows?limit=0", 400, "text/plain", "limit is \"0\"; want 1 to 20000\n"},
		{"GET", "/flows?limit=x", 400, "text/plain", "limit is \"x\"; want 1 to 20000\n"},
		{"GET", "/config_dump", 200, "application/json", "{\n  \"certificates\": [],\n  \"config\": {\n    \"drain\": \"5s\",\n    \"loops\": 2\n  },\n"},
		{"GET", "/loops", 200, "application/json", "{\n"},
		{"GET", "/memstats", 200, "application/json", "{\n"},
		{"GET", "/debug/pprof/", 200, "text/html", "<html>"},
		{"GET", "/debug/pprof/goroutine?debug=1", 200, "text/plain", "goroutine profile"},
		{"GET", "/debug/pprof/cmdline", 200, "text/plain", "/"},
		{"GET", "/quitquitquit", 405, "text/plain", "POST "},
		{"GET", "/logging", 405, "text/plain", "usage: POST "},
		{"POST", "/logging", 200, "text/plain", "current log level is access=warn,info\n"},
		{"POST", "/logging?level=access=debug,pods:off", 200, "text/plain", "current log level is access=debug,pods=off,info\n"},
		{"POST", "/logging?level=error,loud", 400, "text/plain", "Invalid level provided: error,loud\nusage: POST "},
		{"POST", "/logging?level=", 200, "text/plain", "current log level is access=debug,pods=off,info\n"},
		{"POST", "/logging?reset&level=debug", 200, "text/plain", "current log level is access=warn,debug\n"},
		{"POST", "/logging?reset=1", 200, "text/plain", "current log level is access=warn,info\n"},
		{"GET", "/metrics", 404, "", ""},
		{"GET", "/nothing", 404, "", ""},
		{"GET", "/flows/", 404, "", ""},
	} {
		status, media, text := c.ask(tt.method, c.admin+tt.path)
		if status != tt.status || media != tt.media || !strings.HasPrefix(text, tt.text) || tt.text == "" && text != "" {
			t.Errorf("%s %s: %d %s %q; want %d %s %q", tt.method, tt.path, status, media, text, tt.status, tt.media, tt.text)
		}
	}
	if n.quits != 0 {
		t.Error("it was told to quit")
	}
	if status, _, text := c.ask("POST", c.admin+"/quitquitquit"); status != 200 || text != "shutdown now\n" || n.quits != 1 {
		t.Errorf("quit: %d %q, %d times", status, text, n.quits)
	}
}

// The first page links to every other one.
func TestIndexNamesPages(t *testing.T) {
	c := serve(t, newModel(t))
	_, _, text := c.ask("GET", c.admin)
	for _, path := range []string{"/flows", "/config_dump", "/loops", "/memstats", "/quitquitquit", "/logging", "/debug/pprof/"} {
		if !strings.Contains(text, "<a href=\""+path+"\">") {
			t.Errorf("no link to %s", path)
		}
	}
}

func TestFlows(t *testing.T) {
	c := serve(t, newModel(t))
	_, _, table := c.ask("GET", c.admin+"/flows")
	testkit.Golden(t, "flows.golden", table)
	_, _, text := c.ask("GET", c.admin+"/flows?format=json")
	testkit.Golden(t, "flows-json.golden", text)
	if _, _, one := c.ask("GET", c.admin+"/flows?limit=1"); !strings.HasSuffix(one, "\n1 of 2 flows\n") || strings.Count(one, "\n") != 3 {
		t.Errorf("limit=1 gives %q; want the head, one flow and how many there are", one)
	}
}

func TestMemstats(t *testing.T) {
	c := serve(t, newModel(t))
	_, _, text := c.ask("GET", c.admin+"/memstats")
	var got map[string]uint64
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if got["mallocs"] == 0 || got["goroutines"] == 0 || got["heap_alloc_bytes"] == 0 {
		t.Errorf("memstats are %v", got)
	}
}

// The pods with their connections; a draining one only while its uid has not come
// again.
func TestConfigDump(t *testing.T) {
	c := serve(t, newModel(t))
	_, _, text := c.ask("GET", c.admin+"/config_dump")
	testkit.Golden(t, "config_dump.golden", text)
}

func TestLoops(t *testing.T) {
	m := newModel(t)
	m.loops[0] = nil
	c := serve(t, m)
	status, _, text := c.ask("GET", c.admin+"/loops")
	var got struct {
		Time  time.Time
		Loops []struct {
			Loop     int
			Answered bool
			Counters map[string]uint64
			Closed   map[string]map[string]uint64
		}
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || status != 200 || len(got.Loops) != 2 || got.Time.IsZero() {
		t.Fatalf("loops: %d, %v, %s", status, err, text)
	}
	if one := got.Loops[1]; got.Loops[0].Answered || !one.Answered || one.Loop != 1 || one.Counters["sluice_up_bytes_total"] != 200 || one.Closed["outbound"]["client_reset"] != 1 {
		t.Errorf("loops are %+v", got.Loops)
	}
}

// Readiness fails by not being there as soon as the drain begins; the other ports
// stay until the end.
func TestDrain(t *testing.T) {
	c := serve(t, newModel(t))
	c.ask("GET", c.ready+"/healthz/ready")
	c.drain()
	testkit.Eventually(t, testkit.Wait, "the readiness port to be closed", func() bool {
		conn, err := net.Dial("tcp", strings.TrimPrefix(c.ready, "http://"))
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	for _, url := range []string{c.admin + "/flows", c.metrics + "/metrics"} {
		if status, _, _ := c.ask("GET", url); status != 200 {
			t.Errorf("%s while draining: %d", url, status)
		}
	}
}

// A loop that does not answer is reported on every page that needs it.
func TestLoopThatHangs(t *testing.T) {
	n := newModel(t)
	n.loops[1] = nil
	c := serve(t, n)
	for _, path := range []string{"/flows", "/flows?format=json", "/config_dump"} {
		if status, _, text := c.ask("GET", c.admin+path); status != 500 || text != errHangs.Error()+"\n" {
			t.Errorf("%s: %d %q; want the error", path, status, text)
		}
	}
	if status, _, text := c.ask("GET", c.ready+"/healthz/ready"); status != 200 {
		t.Errorf("readiness needs no loop, but: %d %q", status, text)
	}
	status, _, text := c.ask("GET", c.metrics+"/metrics")
	if status != 200 || !strings.Contains(text, "\nsluice_loop_answered{loop=\"0\"} 1\n") || !strings.Contains(text, "\nsluice_loop_answered{loop=\"1\"} 0\n") ||
		!strings.Contains(text, "\nsluice_pods_refused_total 3\n") {
		t.Errorf("metrics: %d, do not say which loop hangs", status)
	}
	for _, name := range []string{"sluice_up_bytes_total", "istio_tcp_connections_opened_total", "sluice_flows_open"} {
		if strings.Contains(text, "\n"+name) {
			t.Errorf("%s is there, without the loop that hangs; want a gap", name)
		}
	}
}

// All ports or none.
func TestListen(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	testkit.NoLeaks(t)
	for _, tt := range []struct {
		cfg  admin.Config
		want string
	}{
		{admin.Config{Admin: "127.0.0.1:0", Metrics: "127.0.0.1:0", Ready: taken.Addr().String()}, "readiness port: "},
		{admin.Config{Metrics: taken.Addr().String()}, "metrics port: "},
		{admin.Config{Admin: "localhost:" + port(taken)}, "admin port: "},
		{admin.Config{Admin: "15000"}, "admin port: "},
	} {
		_, err := admin.Listen(tt.cfg, newModel(t).asked(), log)
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%+v: %v; want %q", tt.cfg, err, tt.want)
		}
	}
}

func port(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// localhost is the loopback of both families, and no other address.
func TestLocalhost(t *testing.T) {
	testkit.NoLeaks(t)
	var family6 sys.FD
	if err := sys.Socket(&family6, sys.IPv6); err != nil {
		t.Skipf("no IPv6 here: %v", err)
	}
	family6.Close()
	for _, tt := range []struct {
		ipv4Only bool
		want     bool // [::1] answers
	}{{false, true}, {true, false}} {
		s, err := admin.Listen(admin.Config{Admin: "localhost:0", IPv4Only: tt.ipv4Only}, newModel(t).asked(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		host, port, err := net.SplitHostPort(s.Addr("admin"))
		if err != nil || host != "127.0.0.1" {
			t.Errorf("it listens on %s, %v; want 127.0.0.1", s.Addr("admin"), err)
		}
		c, err := net.Dial("tcp", net.JoinHostPort("::1", port))
		if err == nil {
			c.Close()
		}
		if (err == nil) != tt.want {
			t.Errorf("IPv4 only %v: dial of [::1]: %v", tt.ipv4Only, err)
		}
		s.Close()
	}
}

// A client that says nothing, or too much, is hung up on.
func TestSlowClients(t *testing.T) {
	c := serve(t, newModel(t))
	silent, err := net.Dial("tcp", strings.TrimPrefix(c.ready, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if _, err := fmt.Fprint(silent, "GET /healthz/ready HTTP/1.1\r\nHost:"); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := silent.SetReadDeadline(start.Add(testkit.Wait)); err != nil {
		t.Fatal(err)
	}
	if _, err := silent.Read(make([]byte, 1)); err == nil || time.Since(start) > testkit.Wait/2 {
		t.Errorf("half a request was held for %v, %v; want it ended after 2 s", time.Since(start), err)
	}
	huge := http.Header{"X": {strings.Repeat("x", 64<<10)}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.ready+"/healthz/ready", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = huge
	if r, err := c.http.Do(req); err == nil {
		r.Body.Close()
		if r.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("64 KiB of headers: %s", r.Status)
		}
	}
}
