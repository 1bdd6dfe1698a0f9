package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// mesh is a node with the shipped proxy and agent on it.
type mesh struct {
	t     *testing.T
	node  *lab.Node
	dir   string // sockets and state
	agent *lab.Process
	proxy *lab.Process
}

func newMesh(t *testing.T, l *lab.Lab) *mesh {
	t.Helper()
	m := &mesh{t: t, node: l.Nodes[0], dir: t.TempDir()}
	m.startAgent()
	m.startProxy()
	return m
}

func (m *mesh) zds() string    { return filepath.Join(m.dir, "z.sock") }
func (m *mesh) socket() string { return filepath.Join(m.dir, "e.sock") }
func (m *mesh) state() string  { return filepath.Join(m.dir, "state") }

func (m *mesh) startAgent() {
	m.t.Helper()
	m.agent = lab.Start(m.t, m.node.Space, lab.Program{
		Path: lab.Binary(m.t, "sluice-redirect"),
		Args: []string{"agent", "--zds-socket", m.zds(), "--socket", m.socket(), "--state-dir", m.state(), "--proxy-wait", "10s"},
	})
	testkit.Try(m.t, testkit.Wait, "the agent's answer", func() error { _, err := m.ask("list"); return err })
}

func (m *mesh) startProxy() {
	m.t.Helper()
	m.proxy = lab.Start(m.t, m.node.Space, lab.Program{Path: lab.Binary(m.t, "sluice"), Args: []string{"run", "--zds-socket", m.zds()}})
}

// kill ends a program without a warning.
func (m *mesh) kill(p *lab.Process) {
	m.t.Helper()
	if _, err := p.Stop(lab.SIGKILL, testkit.Wait); err != nil {
		m.t.Fatal(err)
	}
}

// ask runs one of the commands that talk to the agent.
func (m *mesh) ask(args ...string) (string, error) {
	return run(m.t, "", append(args, "--socket", m.socket())...)
}

func (m *mesh) enroll(p *lab.Pod) {
	m.t.Helper()
	out, err := m.ask("enroll", "--netns", p.Netns, "--name", p.Name, "--namespace", "shop", "--service-account", "sa")
	if err != nil || !strings.HasPrefix(out, "shop/"+p.Name+" enrolled") {
		m.t.Fatalf("enroll: %q, %v", out, err)
	}
}

// served waits until the newest proxy has acknowledged every one of n pods.
func (m *mesh) served(n int) {
	m.t.Helper()
	testkit.Try(m.t, testkit.Wait, "pods to be served", func() error {
		out, err := m.ask("list")
		if err == nil && strings.Count(out, "enrolled  yes    -\n") != n {
			err = errors.New(out)
		}
		return err
	})
}

// echo serves every connection of a pod by sending back what comes.
func echo(t *testing.T, p *lab.Pod, port uint16) {
	t.Helper()
	l, err := p.Listen(p.At4(port), lab.Socket{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c) // the client sees what is wrong
			}()
		}
	}()
}

func dial(t *testing.T, from, to *lab.Pod, port uint16, within time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	return from.Dial(ctx, to.At4(port), lab.Socket{})
}

// talk sends a line and wants it back.
func talk(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(testkit.Wait)); err != nil {
		return err
	}
	const line = "hello through\n"
	if _, err := io.WriteString(c, line); err != nil {
		return err
	}
	got := make([]byte, len(line))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != line {
		return fmt.Errorf("got %q, %w", got, err)
	}
	return nil
}

func once(t *testing.T, from, to *lab.Pod, port uint16) error {
	c, err := dial(t, from, to, port, testkit.Wait)
	if err != nil {
		return err
	}
	defer c.Close()
	return talk(c)
}

// The shipped proxy and the shipped agent, each of which dies and comes back: open
// flows and new ones.
func TestLabBothHalves(t *testing.T) {
	testkit.NoLeaks(t)
	l := lab.New(t, lab.Simple(1, 2, 0))
	m := newMesh(t, l)
	client, server := m.node.Pods[0], m.node.Pods[1]
	before := snapshot(t, client.Space)
	echo(t, server, 8080)
	m.enroll(client)
	m.enroll(server)
	m.served(2)
	if err := once(t, client, server, 8080); err != nil {
		t.Fatalf("with both halves: %v", err)
	}
	open, err := dial(t, client, server, 8080, testkit.Wait)
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if err := talk(open); err != nil {
		t.Fatal(err)
	}
	if out, err := m.ask("unenroll", "shop/"+client.Name); err == nil || !strings.Contains(err.Error(), "sockets of the proxy are live") {
		t.Errorf("unenroll with an open flow: %q, %v; want it refused", out, err)
	}

	m.kill(m.agent)
	for i := range 50 {
		if err := once(t, client, server, 8080); err != nil {
			t.Fatalf("dial %d without an agent: %v", i, err)
		}
	}
	m.startAgent()
	m.served(2)
	if err := talk(open); err != nil {
		t.Errorf("the open flow after a new agent: %v", err)
	}
	if n := strings.Count(m.proxy.Log(), "pod up"); n != 2 {
		t.Errorf("the proxy started %d pods; want the two it had, kept", n)
	}

	open.Close()
	m.kill(m.proxy)
	if c, err := dial(t, client, server, 8080, 300*time.Millisecond); err == nil {
		c.Close()
		t.Error("a dial without a proxy came through")
	}
	m.startProxy() // and no command
	m.served(2)
	if err := once(t, client, server, 8080); err != nil {
		t.Errorf("with a new proxy: %v", err)
	}

	for _, p := range m.node.Pods {
		testkit.Try(t, testkit.Wait, "leaving", func() error { _, err := m.ask("unenroll", "shop/"+p.Name); return err })
	}
	if got := snapshot(t, client.Space); got != before {
		t.Errorf("was\n%s\nis\n%s", before, got)
	}
	if err := once(t, client, server, 8080); err != nil {
		t.Errorf("without either half: %v", err)
	}
}

// An agent without rights says so and leaves nothing half done.
func TestLabAgentWithoutRights(t *testing.T) {
	testkit.NoLeaks(t)
	l := lab.New(t, lab.Simple(1, 1, 0))
	pod := l.Nodes[0].Pods[0]
	m := &mesh{t: t, node: l.Nodes[0], dir: t.TempDir()}
	m.agent = lab.Start(t, m.node.Space, lab.Program{
		Name: "agent", Path: "setpriv", Env: []string{asProgram + "=1"},
		Args: []string{"--bounding-set=-all", "--inh-caps=-all", os.Args[0],
			"agent", "--zds-socket", m.zds(), "--socket", m.socket(), "--state-dir", m.state()},
	})
	testkit.Try(t, testkit.Wait, "the agent's answer", func() error { _, err := m.ask("list"); return err })
	before := snapshot(t, pod.Space)
	args := strings.Fields("enroll --name w --namespace shop --service-account sa --netns " + pod.Netns)
	if out, err := m.ask(args...); err == nil || !strings.Contains(err.Error(), "operation not permitted") || !strings.Contains(err.Error(), "run it as root") {
		t.Errorf("enroll: %q, %v; want it refused", out, err)
	}
	if got := snapshot(t, pod.Space); got != before {
		t.Errorf("was\n%s\nis\n%s", before, got)
	}
	if left, err := filepath.Glob(filepath.Join(m.state(), "pods", "*")); err != nil || len(left) != 0 {
		t.Errorf("left in the state folder: %v, %v", left, err)
	}
	// One that may not even make its folders.
	cmd := exec.CommandContext(t.Context(), "setpriv", "--bounding-set=-all", "--inh-caps=-all", os.Args[0], "agent", "--state-dir", "/proc/sluice")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "/proc/sluice") {
		t.Errorf("an agent without a state folder: %v, %s", err, out)
	}
}
