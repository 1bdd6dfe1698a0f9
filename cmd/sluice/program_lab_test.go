package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/zds"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/redirect"
	"github.com/sluice-mesh/sluice/redirect/apply"
)

// program is the shipped proxy on a node, and this test as its agent.
type program struct {
	t     *testing.T
	node  *lab.Node
	agent *zds.Listener
	conn  *zds.Conn // to the proxy, once it has come
	*lab.Process
}

// startProgram starts the proxy and gives it the node's pods.
func startProgram(t *testing.T, l *lab.Lab, args ...string) *program {
	t.Helper()
	p := &program{t: t, node: l.Nodes[0]}
	socket := filepath.Join(t.TempDir(), "z.sock")
	var err error
	if p.agent, err = zds.Listen(socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.agent.Close() })
	p.Process = lab.Start(t, p.node.Space, lab.Program{Path: lab.Binary(t, "sluice"), Args: append([]string{"run", "--zds-socket", socket}, args...)})
	testkit.Within(t, testkit.Wait, "the proxy's connection", func() error {
		p.conn, err = p.agent.Accept()
		return err
	})
	t.Cleanup(func() { p.conn.Close() })
	if _, err := p.conn.ReadHello(soon()); err != nil {
		t.Fatal(err)
	}
	for _, pod := range p.node.Pods {
		p.must(zds.Request{Kind: zds.Add, UID: pod.Name, Info: &zds.Info{Name: pod.Name, Namespace: "lab", ServiceAccount: "sa"}}, pod)
	}
	return p
}

func soon() time.Time { return time.Now().Add(testkit.Wait) }

// must asks the proxy for something that it has to do.
func (p *program) must(r zds.Request, pod *lab.Pod) {
	p.t.Helper()
	var a zds.Response
	var err error
	if pod != nil {
		a, err = p.conn.Ask(r, pod.Handle().FD(), soon())
	} else {
		a, err = p.conn.Ask(r, nil, soon())
	}
	if err != nil || a.Error != "" {
		p.t.Fatalf("%v: %q, %v", r.Kind, a.Error, err)
	}
}

// ask asks one of its ports, in the node's namespace.
func (p *program) ask(method string, port uint16, path string) (int, string, error) {
	c := http.Client{Timeout: testkit.Wait, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return p.node.Dial(ctx, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port), lab.Socket{})
	}}}
	req, err := http.NewRequestWithContext(p.t.Context(), method, fmt.Sprintf("http://proxy:%d%s", port, path), nil)
	if err != nil {
		return 0, "", err
	}
	r, err := c.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return r.StatusCode, string(text), err
}

// ended waits for the process and wants that exit status.
func (p *program) ended(status int) {
	p.t.Helper()
	exit, err := p.Wait(testkit.Wait)
	if err != nil {
		p.t.Fatal(err)
	}
	if exit.Code != status {
		p.t.Errorf("it ended with %v; want status %d\n%s", exit, status, p.LogTail(10))
	}
}

// talk captures the pods, dials the second from the first, and has a line echoed. The
// connection stays open.
func (p *program) talk() *net.TCPConn {
	p.t.Helper()
	client, server := p.node.Pods[0], p.node.Pods[1]
	for _, pod := range p.node.Pods {
		if _, err := apply.Apply(pod.Handle(), redirect.Intent{}, apply.StateDir(p.t.TempDir())); err != nil {
			p.t.Fatal(err)
		}
	}
	l, err := server.Listen(server.At4(8080), lab.Socket{})
	if err != nil {
		p.t.Fatal(err)
	}
	done := make(chan struct{})
	p.t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(c, c) // the client sees what is wrong
			c.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(p.t.Context(), testkit.Wait)
	defer cancel()
	c, err := client.Dial(ctx, server.At4(8080), lab.Socket{})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { c.Close() })
	if err := echoed(c); err != nil {
		p.t.Fatal(err)
	}
	return c
}

// echoed sends a line and wants it back.
func echoed(c net.Conn) error {
	if err := c.SetDeadline(soon()); err != nil {
		return err
	}
	const line = "hello\n"
	if _, err := io.WriteString(c, line); err != nil {
		return err
	}
	got := make([]byte, len(line))
	_, err := io.ReadFull(c, got)
	return err
}

// twoPods is a node with two pods.
func twoPods(t *testing.T) *lab.Lab { return lab.New(t, lab.Simple(1, 2, 0)) }

// The whole surface of a running proxy, and SIGTERM: not ready at once, open flows
// go on, and status 0 once they have ended.
func TestLabDrain(t *testing.T) {
	p := startProgram(t, twoPods(t), "--drain", "1m", "--log-format", "json")
	if status, text, err := p.ask("GET", 15021, "/healthz/ready"); err != nil || status != 500 || text != "not ready, pending: workload proxy manager\n" {
		t.Errorf("readiness before the snapshot: %d %q, %v", status, text, err)
	}
	p.must(zds.Request{Kind: zds.SnapshotSent}, nil)
	testkit.Try(t, testkit.Wait, "readiness", func() error {
		status, text, err := p.ask("GET", 15021, "/healthz/ready")
		if err == nil && (status != 200 || text != "ready\n") {
			err = fmt.Errorf("%d %q", status, text)
		}
		return err
	})
	c := p.talk()
	if _, text, err := p.ask("GET", 15000, "/flows"); err != nil || strings.Count(text, " relaying ") != 2 || !strings.Contains(text, "lab/p1  ") {
		t.Errorf("flows: %v\n%s", err, text)
	}
	if _, text, err := p.ask("GET", 15020, "/metrics"); err != nil || !strings.Contains(text, "\nsluice_flows_open 2\n") || !strings.Contains(text, "\nworkload_manager_active_proxy_count 2\n") {
		t.Errorf("metrics: %v\n%s", err, text)
	}
	var dump struct {
		Config        map[string]any
		WorkloadState map[string]struct{ State string }
	}
	if _, text, err := p.ask("GET", 15000, "/config_dump"); err != nil || json.Unmarshal([]byte(text), &dump) != nil ||
		dump.Config["drain"] != "1m0s" || len(dump.WorkloadState) != 2 || dump.WorkloadState["p1"].State != "Up" {
		t.Errorf("config_dump: %v\n%s", err, text)
	}

	if err := p.Signal(lab.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, testkit.Wait, "the readiness port to be closed", func() bool {
		_, _, err := p.ask("GET", 15021, "/healthz/ready")
		return err != nil
	})
	if err := echoed(c); err != nil {
		t.Errorf("the open flow while draining: %v", err)
	}
	if _, text, err := p.ask("GET", 15000, "/flows"); err != nil || strings.Count(text, " relaying ") != 2 {
		t.Errorf("flows while draining: %v\n%s", err, text)
	}
	if err := p.Signal(lab.SIGTERM); err != nil { // a second one changes nothing
		t.Fatal(err)
	}
	if err := echoed(c); err != nil {
		t.Errorf("the open flow after a second signal: %v", err)
	}
	c.Close()
	p.ended(0)
	var access, cut int
	for line := range strings.Lines(p.Log()) {
		var l struct{ Level, Scope, Message, Error string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		if l.Scope == "access" {
			access++
		}
		if l.Error != "" {
			cut++
			t.Errorf("a fault: %s", line)
		}
	}
	if access != 2 || cut != 0 {
		t.Errorf("%d flows in the log; want 2", access)
	}
}

// What does not end by itself is cut at the deadline of the process, and says so;
// the port for people can start the drain, too.
func TestLabQuit(t *testing.T) {
	p := startProgram(t, twoPods(t), "--drain", "300ms")
	c := p.talk()
	if status, text, err := p.ask("POST", 15000, "/quitquitquit"); err != nil || status != 200 || text != "shutdown now\n" {
		t.Errorf("quit: %d %q, %v", status, text, err)
	}
	p.ended(0)
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the flow that was cut: %v; want a reset", err)
	}
	if n := strings.Count(p.Log(), `error="connection closed due to connection drain"`); n == 0 || strings.Contains(p.Log(), "pod_drain") {
		t.Errorf("the log does not say that the process drain cut flows\n%s", p.LogTail(10))
	}
}

// The second interrupt ends the process at once, with status 0.
func TestLabSecondInterrupt(t *testing.T) {
	p := startProgram(t, twoPods(t), "--drain", "1h")
	p.talk()
	if err := p.Signal(lab.SIGINT); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, testkit.Wait, "the drain", func() bool { return p.Logged("drain begins") })
	if err := p.Signal(lab.SIGINT); err != nil {
		t.Fatal(err)
	}
	p.ended(0)
}

// An agent that breaks the protocol ends the proxy with status 1.
func TestLabProtocolError(t *testing.T) {
	p := startProgram(t, twoPods(t))
	a, err := p.conn.Ask(zds.Request{Kind: zds.Add, UID: "x"}, p.node.Pods[0].Handle().FD(), soon()) // without a name
	if err != nil || a.Error == "" {
		t.Errorf("the answer is %q, %v; want an error", a.Error, err)
	}
	p.ended(1)
	if !p.Logged("sluice: agent broke the hand-off protocol: ") {
		t.Errorf("it does not say why\n%s", p.LogTail(5))
	}
}

// Log levels change while it runs.
func TestLabLogging(t *testing.T) {
	p := startProgram(t, twoPods(t), "--log-level", "warn")
	if status, text, err := p.ask("POST", 15000, "/logging?level=pods:info"); err != nil || status != 200 || text != "current log level is pods=info,warn\n" {
		t.Errorf("logging: %d %q, %v", status, text, err)
	}
	p.must(zds.Request{Kind: zds.SnapshotSent}, nil)
	testkit.Eventually(t, testkit.Wait, "a line of the pods", func() bool { return p.Logged("\tinfo\tpods\tsnapshot complete\t") })
	if p.Logged("pod up") || p.Logged("sluice starts") {
		t.Errorf("lines from before the change are there\n%s", p.Log())
	}
}

// A port that is taken is fatal, and said.
func TestLabPortTaken(t *testing.T) {
	l := lab.New(t, lab.Simple(1, 0, 0))
	taken, err := l.Nodes[0].Listen(netip.MustParseAddrPort("0.0.0.0:15020"), lab.Socket{})
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	p := &program{t: t, node: l.Nodes[0]}
	p.Process = lab.Start(t, p.node.Space, lab.Program{Path: lab.Binary(t, "sluice"), Args: []string{"run", "--zds-socket", filepath.Join(t.TempDir(), "z")}})
	p.ended(1)
	if !p.Logged("sluice: metrics port: listen tcp") {
		t.Errorf("it does not say which port\n%s", p.LogTail(5))
	}
}

// Without the rights that it needs (either of two for marks and transparent sockets,
// since Linux 5.17) the proxy says which one it lacks, at once.
func TestLabSelfTest(t *testing.T) {
	lab.Require(t)
	for _, tt := range []struct{ drop, args, want string }{
		{"-all", "", "sluice: enter a network namespace, its own for a try: operation not permitted; give the process CAP_SYS_ADMIN\n"},
		{"-net_admin,-net_raw", "", "sluice: mark a socket: operation not permitted; give the process CAP_NET_ADMIN\n"},
		{"-net_admin,-net_raw", "--no-mark", "sluice: make a socket transparent: operation not permitted; give the process CAP_NET_ADMIN\n"},
	} {
		args := append([]string{"--bounding-set=" + tt.drop, "--inh-caps=-all", lab.Binary(t, "sluice"), "run"}, strings.Fields(tt.args)...)
		var out, errs bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Wait)
		cmd := exec.CommandContext(ctx, "setpriv", args...)
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		cancel()
		if failed, ok := errors.AsType[*exec.ExitError](err); !ok || failed.ExitCode() != 1 || errs.String() != tt.want {
			t.Errorf("without %s: %v, %q; want %q", tt.drop, err, errs.String(), tt.want)
		}
	}
}
