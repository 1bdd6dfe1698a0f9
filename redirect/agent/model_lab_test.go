package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/dataplane/zds"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/redirect/agent"
)

// proxy is a small working model of a node proxy: in each pod that it is given it
// opens one listener with the proxy's mark, and closes it when the pod is deleted.
type proxy struct {
	t    testing.TB
	c    *zds.Conn
	done chan struct{}

	mu     sync.Mutex
	said   []string // requests, in order: "add shop/web"
	pods   map[string]*sys.FD
	pinned []*sys.FD // sockets that stay open: live flows

	// Set before start; they run before the request is obeyed and may refuse it.
	onAdd func(uid string, ns *netns.Handle) string
	onDel func(uid string) (letGo bool)
}

// connect makes a proxy say hello with these modes, then obey.
func (a *running) connect(modes ...string) *proxy {
	a.t.Helper()
	return a.connectWith(&proxy{}, modes...)
}

func (a *running) connectWith(p *proxy, modes ...string) *proxy {
	a.t.Helper()
	p.t, p.done, p.pods = a.t, make(chan struct{}), map[string]*sys.FD{}
	p.c = a.dial()
	if err := p.c.SendHello(zds.Hello{Version: zds.V1, Modes: modes}, time.Now().Add(testkit.Wait)); err != nil {
		a.t.Fatal(err)
	}
	go p.obey()
	a.t.Cleanup(p.kill)
	return p
}

func (a *running) dial() *zds.Conn {
	a.t.Helper()
	var c *zds.Conn
	testkit.Try(a.t, testkit.Wait, "socket for proxies", func() (err error) {
		c, err = zds.Dial(a.t.Context(), a.cfg.ZDSSocket)
		return err
	})
	return c
}

// kill ends the proxy as the kernel would: with all its sockets.
func (p *proxy) kill() {
	p.c.Close()
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.pods {
		l.Close()
	}
	for _, f := range p.pinned {
		f.Close()
	}
	p.pods, p.pinned = map[string]*sys.FD{}, nil
}

func (p *proxy) obey() {
	defer close(p.done)
	for {
		r, fd, err := p.c.ReadRequest()
		if err != nil {
			return
		}
		what := r.Kind.String()
		if r.UID != "" {
			what += " " + r.UID
		}
		p.mu.Lock()
		p.said = append(p.said, what)
		p.mu.Unlock()
		failure := ""
		switch r.Kind {
		case zds.Add:
			failure = p.add(r.UID, fd)
		case zds.Del:
			p.mu.Lock()
			onDel := p.onDel
			p.mu.Unlock()
			if onDel == nil || onDel(r.UID) {
				p.mu.Lock()
				if l := p.pods[r.UID]; l != nil {
					l.Close()
					delete(p.pods, r.UID)
				}
				p.mu.Unlock()
			}
		case zds.Keep, zds.SnapshotSent:
		}
		if failure == "mute" {
			continue
		}
		if err := p.c.Respond(failure, time.Now().Add(testkit.Wait)); err != nil {
			return
		}
	}
}

func (p *proxy) add(uid string, fd *sys.FD) string {
	ns, err := netns.New(fd)
	if err != nil {
		return err.Error()
	}
	defer ns.Close()
	if p.onAdd != nil {
		if failure := p.onAdd(uid, ns); failure != "" {
			return failure
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pods[uid] != nil {
		return ""
	}
	l, err := listenIn(ns, 15001, sys.Mark)
	if err != nil {
		return err.Error()
	}
	p.pods[uid] = l
	return ""
}

func listenIn(ns *netns.Handle, port uint16, mark uint32) (*sys.FD, error) {
	l := new(sys.FD)
	err := ns.Do(func() error {
		if err := sys.Socket(l, sys.IPv4); err != nil {
			return err
		}
		return errors.Join(sys.SetMark(l, mark), sys.SetReusePort(l), sys.SetReuseAddr(l), sys.BindAny(l, sys.IPv4, port), sys.Listen(l, 16))
	})
	if err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// pin makes a live flow of the proxy in ns: a marked connection over lo to a
// listener that never accepts.
func (p *proxy) pin(ns *netns.Handle) error {
	server, err := listenIn(ns, 8080, 0)
	if err != nil {
		return err
	}
	c := new(sys.FD)
	err = ns.Do(func() error {
		if err := errors.Join(sys.Socket(c, sys.IPv4), sys.SetMark(c, sys.Mark)); err != nil {
			return err
		}
		to, err := sys.LocalAddr(server)
		if err != nil {
			return err
		}
		if err := sys.Connect(c, loopback(to)); !errors.Is(err, sys.EINPROGRESS) {
			return err
		}
		return nil
	})
	p.mu.Lock()
	p.pinned = append(p.pinned, server, c)
	p.mu.Unlock()
	return err
}

// unpin ends the live flows.
func (p *proxy) unpin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.pinned {
		f.Close()
	}
	p.pinned = nil
}

// synced waits until n proxies in all have had their snapshot, and the agent knows.
func (a *running) synced(n uint64) {
	a.t.Helper()
	testkit.Eventually(a.t, testkit.Wait, "proxies to be served", func() bool { return a.list().Stats.Synced == n })
}

// heard lists what the proxy was asked, and forgets it.
func (p *proxy) heard() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := strings.Join(p.said, ", ")
	p.said = nil
	return all
}

// wait until the proxy has been asked this, since the last heard.
func (p *proxy) wait(what string) {
	p.t.Helper()
	testkit.Eventually(p.t, testkit.Wait, "proxy to hear "+what, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return slices.Contains(p.said, what)
	})
}

func (p *proxy) serves(uid string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pods[uid] != nil
}

// running is an agent under test.
type running struct {
	t    testing.TB
	cfg  agent.Config
	stop func() // ends it and waits; the kernel's state stays
	end  chan error
}

// quick has waits that a test can sit out.
func quick(t testing.TB) agent.Config {
	dir := t.TempDir()
	return agent.Config{
		ZDSSocket: filepath.Join(dir, "z.sock"), EnrollSocket: filepath.Join(dir, "e.sock"), StateDir: filepath.Join(dir, "state"),
		HelloWait: time.Second, AskWait: testkit.Wait, ProxyWait: testkit.Wait,
		AcceptEvery: time.Millisecond, LeaveWait: 100 * time.Millisecond, Retry: 10 * time.Millisecond,
	}
}

// begin runs an agent until the end of the test, or until its stop.
func begin(t testing.TB, cfg agent.Config) *running {
	t.Helper()
	a, err := agent.New(cfg, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{t: t, cfg: cfg, end: make(chan error, 1)}
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := testkit.Receive(t, testkit.Wait, "end of the agent", r.end); err != nil {
			t.Errorf("agent ended with %v", err)
		}
	})
	go func() { r.end <- a.Run(ctx) }()
	t.Cleanup(r.stop)
	testkit.Try(t, testkit.Wait, "the agent's answer", func() error {
		_, err := r.ask(agent.Request{Op: agent.OpList}, nil)
		return err
	})
	return r
}

func (a *running) ask(r agent.Request, ns *sys.FD) (agent.Answer, error) {
	if r.TimeoutMS == 0 {
		r.TimeoutMS = int(testkit.Wait / time.Millisecond)
	}
	return agent.Ask(context.Background(), a.cfg.EnrollSocket, r, ns)
}

// request enrols pod uid in the namespace at path.
func request(uid, path string) agent.Request {
	return agent.Request{Op: agent.OpEnroll, UID: uid, Name: "web", Namespace: "shop", ServiceAccount: "front", Netns: path}
}

func (a *running) enroll(uid, path string) error {
	_, err := a.ask(request(uid, path), nil)
	return err
}

func (a *running) mustEnroll(uid, path string) {
	a.t.Helper()
	if err := a.enroll(uid, path); err != nil {
		a.t.Fatal(err)
	}
}

func (a *running) unenroll(uid string, force bool) error {
	_, err := a.ask(agent.Request{Op: agent.OpUnenroll, UID: uid, Force: force}, nil)
	return err
}

func (a *running) list() agent.Answer {
	a.t.Helper()
	got, err := a.ask(agent.Request{Op: agent.OpList}, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	return got
}

// phases lists uid, phase and whether the newest proxy has acknowledged.
func (a *running) phases() string {
	a.t.Helper()
	var all []string
	for _, p := range a.list().Pods {
		acked := ""
		if p.Acked {
			acked = "+"
		}
		all = append(all, fmt.Sprintf("%s:%s%s", p.UID, p.Phase, acked))
	}
	return strings.Join(all, " ")
}

// want waits for the pods to be in these phases.
func (a *running) want(phases string) {
	a.t.Helper()
	testkit.Try(a.t, testkit.Wait, "phases of the pods", func() error {
		if got := a.phases(); got != phases {
			return fmt.Errorf("%q; want %q", got, phases)
		}
		return nil
	})
}

// files lists the uids that are on disk, by file name.
func (a *running) files() []string {
	names, err := filepath.Glob(filepath.Join(a.cfg.StateDir, "pods", "*"))
	if err != nil {
		a.t.Fatal(err)
	}
	return names
}

// pod makes a named network namespace whose lo is up, and returns its path.
func pod(t testing.TB, name string) string {
	t.Helper()
	full := fmt.Sprintf("zdsa%d-%s", os.Getpid(), name)
	ip(t, "netns", "add", full)
	t.Cleanup(func() { exec.Command("ip", "netns", "del", full).Run() })
	ip(t, "-n", full, "link", "set", "lo", "up")
	return "/run/netns/" + full
}

// destroy takes a namespace's name away.
func destroy(t testing.TB, path string) {
	t.Helper()
	ip(t, "netns", "del", filepath.Base(path))
}

func ip(t testing.TB, args ...string) string {
	t.Helper()
	return command(t, "ip", args...)
}

func command(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func opened(t testing.TB, path string) *netns.Handle {
	t.Helper()
	ns, err := netns.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	return ns
}

// kernel describes what capture has put into the namespace: "table", "rules".
func kernel(t testing.TB, path string) string {
	t.Helper()
	name := filepath.Base(path)
	var has []string
	if out, err := exec.Command("ip", "netns", "exec", name, "nft", "list", "tables").CombinedOutput(); err != nil {
		t.Fatalf("nft: %v\n%s", err, out)
	} else if strings.Contains(string(out), "table inet sluice") {
		has = append(has, "table")
	}
	if strings.Contains(ip(t, "-n", name, "rule"), "fwmark") {
		has = append(has, "rules")
	}
	if command(t, "ip", "netns", "exec", name, "sysctl", "-n", "net.ipv4.tcp_fwmark_accept") == "1\n" {
		has = append(has, "sysctl")
	}
	return strings.Join(has, " ")
}

// captured is what kernel says of a pod that is enrolled.
const captured = "table rules sysctl"

// phaseOnDisk is what the one pod's file says.
func (a *running) phaseOnDisk() string {
	files := a.files()
	if len(files) != 1 {
		return fmt.Sprintf("files %v", files)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return err.Error()
	}
	var r struct{ Phase string }
	if err := json.Unmarshal(text, &r); err != nil {
		return err.Error()
	}
	return r.Phase
}

func base(path string) string { return filepath.Base(path) }

func unenrollRequest(uid string, force bool) agent.Request {
	return agent.Request{Op: agent.OpUnenroll, UID: uid, Force: force}
}

// waitFor waits until the proxy has its snapshot, and forgets that.
func (a *running) waitFor(p *proxy) {
	a.t.Helper()
	p.wait("snapshot_sent")
	p.heard()
}
