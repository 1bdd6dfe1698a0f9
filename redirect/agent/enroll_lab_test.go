package agent_test

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/redirect/agent"
)

func loopback(to netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), to.Port())
}

// setup is an agent with one proxy that serves mode direct.
func setup(t *testing.T) (*running, *proxy) {
	t.Helper()
	lab.Require(t)
	testkit.NoLeaks(t)
	a := begin(t, quick(t))
	p := a.connect("direct", "redirect")
	p.wait("snapshot_sent")
	p.heard()
	return a, p
}

func refused(t *testing.T, what string, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s was not refused", what)
		return
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%s was refused with %q; want it to say %q", what, err, w)
		}
	}
}

// The proxy listens before the first packet is captured, and routes are there
// before the proxy listens.
func TestLabEnrollOrder(t *testing.T) {
	lab.Require(t)
	testkit.NoLeaks(t)
	a := begin(t, quick(t))
	web := pod(t, "web")
	seen := make(chan string, 2) // what is there when the proxy is told
	p := a.connectWith(&proxy{
		onAdd: func(string, *netns.Handle) string {
			seen <- fmt.Sprintf("%s, %s", kernel(t, web), a.phaseOnDisk())
			return ""
		},
		onDel: func(string) bool { seen <- kernel(t, web); return true },
	}, "direct")
	p.wait("snapshot_sent")
	if got := kernel(t, web); got != "" {
		t.Fatalf("a fresh namespace has %q", got)
	}
	a.mustEnroll("shop/web", web)
	if got := <-seen; got != "rules sysctl, announcing" {
		t.Errorf("when the proxy was told there were %q; want rules, sysctls and a file that says so", got)
	}
	if got := kernel(t, web); got != captured {
		t.Errorf("enrolled with %q; want %q", got, captured)
	}
	a.want("shop/web:enrolled+")
	if s := a.list(); s.Stats.Enrolled != 1 || s.Pods[0].Mode != "direct" || s.Pods[0].Netns != web {
		t.Errorf("list says %+v", s)
	}

	if err := a.unenroll("shop/web", false); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got != captured {
		t.Errorf("when the proxy was told to let go there were %q; want everything", got)
	}
	if got := kernel(t, web); got != "" {
		t.Errorf("left behind: %q", got)
	}
	a.want("")
	if n := len(a.files()); n != 0 {
		t.Errorf("%d files left", n)
	}
	refused(t, "a second leaving", a.unenroll("shop/web", false), "no such pod")
	if got := p.heard(); got != "snapshot_sent, add shop/web, del shop/web" {
		t.Errorf("proxy heard %q", got)
	}
}

func TestLabEnrollTwice(t *testing.T) {
	a, p := setup(t)
	web, other := pod(t, "web"), pod(t, "other")
	a.mustEnroll("shop/web", web)
	p.heard()
	got, err := a.ask(request("shop/web", web), nil)
	if err != nil || !strings.Contains(got.Note, "already") {
		t.Errorf("the same once more: %+v, %v; want nothing to happen", got, err)
	}
	refused(t, "another namespace", a.enroll("shop/web", other), "still exists", "unenroll it first")
	refused(t, "another uid", a.enroll("shop/web2", web), "pod shop/web", "unenroll that one first")
	r := request("shop/web", web)
	r.ServiceAccount = "admin"
	_, err = a.ask(r, nil)
	refused(t, "another identity", err, "front")
	r = request("shop/web", web)
	r.Mode = "redirect"
	_, err = a.ask(r, nil)
	refused(t, "another mode", err, "captured in mode direct")
	if got := p.heard(); got != "" {
		t.Errorf("proxy heard %q; want nothing", got)
	}
	if got := kernel(t, other); got != "" {
		t.Errorf("the other namespace has %q", got)
	}

	destroy(t, web) // dead: no name, no process; only descriptors
	a.mustEnroll("shop/web", other)
	a.want("shop/web:enrolled+")
	if got := kernel(t, other); got != captured {
		t.Errorf("the new namespace has %q", got)
	}
	if s := a.list(); s.Stats.Dropped != 1 {
		t.Errorf("counters are %+v; want one pod dropped", s.Stats)
	}
}

func TestLabEnrollByDescriptor(t *testing.T) {
	a, _ := setup(t)
	web := pod(t, "web")
	ns := opened(t, web)
	if _, err := a.ask(request("shop/web", ""), ns.FD()); err != nil {
		t.Fatal(err)
	}
	if got := a.list().Pods[0].Netns; got != web {
		t.Errorf("found at %q; want %q", got, web)
	}
	// What the client calls it counts for nothing when the descriptor is another's.
	other := pod(t, "other")
	if _, err := a.ask(request("shop/other", web), opened(t, other).FD()); err != nil {
		t.Fatal(err)
	}
	if got := kernel(t, other); got != captured {
		t.Errorf("the descriptor's namespace has %q", got)
	}
	anonymous, err := sys.NewNamespace()
	if err != nil {
		t.Fatal(err)
	}
	defer anonymous.Close()
	_, err = a.ask(request("shop/anon", ""), anonymous)
	refused(t, "a namespace without a name", err, "give it a name")
	_, err = a.ask(request("shop/none", ""), nil)
	refused(t, "no namespace", err, "neither a path nor a descriptor")
	file, err := sys.LockFile(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_, err = a.ask(request("shop/file", ""), file)
	refused(t, "a file", err, "not a network namespace")
	refused(t, "a file's path", a.enroll("shop/file", "/etc/passwd"), "/etc/passwd")
	refused(t, "no such path", a.enroll("shop/none", "/run/netns/zdsa-none"), "zdsa-none")
}

// A namespace without a name, but with a process in it.
func TestLabEnrollProcess(t *testing.T) {
	a, p := setup(t)
	cmd := exec.Command("unshare", "-n", "sh", "-c", "ip link set lo up && echo up && exec sleep 60")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	if _, err := out.Read(make([]byte, 8)); err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("/proc/%d/ns/net", cmd.Process.Pid)
	a.mustEnroll("shop/web", path)
	a.want("shop/web:enrolled+")
	p.heard()
	cmd.Process.Kill()
	cmd.Wait()
	p.wait("del shop/web") // the agent sees that it died
	a.want("")
	if s := a.list(); s.Stats.Dropped != 1 {
		t.Errorf("counters are %+v; want one pod dropped", s.Stats)
	}
}

func TestLabHostNamespace(t *testing.T) {
	a, p := setup(t)
	before := command(t, "ip", "rule")
	for _, path := range []string{"/proc/self/ns/net", "/proc/thread-self/ns/net", "/proc/1/ns/net"} {
		if _, err := os.Readlink(path); err != nil {
			continue // process 1 is not ours to look at in a user namespace
		}
		refused(t, path, a.enroll("host", path), "never programmed as a pod")
	}
	own, err := netns.Current()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	_, err = a.ask(request("host", ""), own.FD())
	refused(t, "its descriptor", err, "never programmed as a pod")
	if got := p.heard(); got != "" || len(a.files()) != 0 || a.list().Stats.Failed != 0 {
		t.Errorf("proxy heard %q, files %v, counters %+v; want nothing begun", got, a.files(), a.list().Stats)
	}
	if after := command(t, "ip", "rule"); after != before {
		t.Errorf("policy rules of the host changed:\n%s\nbefore:\n%s", after, before)
	}
}

func TestLabModes(t *testing.T) {
	lab.Require(t)
	testkit.NoLeaks(t)
	cfg := quick(t)
	cfg.ProxyWait = 20 * time.Millisecond
	a := begin(t, cfg)
	web := pod(t, "web")
	refused(t, "no proxy", a.enroll("shop/web", web), "no proxy is connected")

	old := a.connect() // names no mode, as Istio's does
	old.wait("snapshot_sent")
	a.synced(1)
	refused(t, "mode of a proxy that names none", a.enroll("shop/web", web), "does not serve", "direct")
	r := request("shop/web", web)
	r.Mode = "direct"
	_, err := a.ask(r, nil)
	refused(t, "mode direct", err, "does not serve", "direct")
	r.Mode = "redirect"
	_, err = a.ask(r, nil)
	refused(t, "mode redirect", err, "not available")
	if got := old.heard(); got != "snapshot_sent" || kernel(t, web) != "" || len(a.files()) != 0 {
		t.Errorf("proxy heard %q, the pod has %q, %d files; want nothing", got, kernel(t, web), len(a.files()))
	}

	ours := a.connect("direct")
	ours.wait("snapshot_sent")
	a.synced(2)
	r.Mode = "direct"
	if _, err := a.ask(r, nil); err != nil {
		t.Errorf("mode direct: %v", err)
	}
	a.want("shop/web:enrolled+")
}

// An enrolment waits a little for a proxy that is just starting.
func TestLabEnrollWaitsForProxy(t *testing.T) {
	lab.Require(t)
	testkit.NoLeaks(t)
	cfg := quick(t)
	cfg.ProxyWait = testkit.Wait
	a := begin(t, cfg)
	web := pod(t, "web")
	done := make(chan error, 1)
	go func() { done <- a.enroll("shop/web", web) }()
	a.connect("direct")
	if err := testkit.Receive(t, testkit.Wait, "enrolment", done); err != nil {
		t.Error(err)
	}
}

// nothing checks that an enrolment that failed has left nothing.
func nothing(t *testing.T, a *running, path string) {
	t.Helper()
	a.want("")
	if got := kernel(t, path); got != "" {
		t.Errorf("left in the kernel: %q", got)
	}
	for _, dir := range []string{"pods", "netns"} {
		if left, err := filepath.Glob(filepath.Join(a.cfg.StateDir, dir, "*")); err != nil || len(left) != 0 {
			t.Errorf("left in the state folder: %v, %v", left, err)
		}
	}
	if s := a.list().Stats; s.Failed != 1 || s.Enrolled != 0 {
		t.Errorf("counters are %+v; want one failure", s)
	}
}

func TestLabPrepareFails(t *testing.T) {
	lab.Require(t)
	testkit.NoLeaks(t)
	cfg := quick(t)
	cfg.Intent.Require = []string{"no_such_expression"}
	a := begin(t, cfg)
	p := a.connect("direct")
	p.wait("snapshot_sent")
	web := pod(t, "web")
	refused(t, "a kernel that lacks something", a.enroll("shop/web", web), "step prepare", "no_such_expression")
	if got := p.heard(); got != "snapshot_sent" {
		t.Errorf("proxy heard %q; want nothing of the pod", got)
	}
	nothing(t, a, web)
}

func TestLabProxyRefuses(t *testing.T) {
	lab.Require(t)
	testkit.NoLeaks(t)
	a := begin(t, quick(t))
	p := a.connectWith(&proxy{onAdd: func(string, *netns.Handle) string { return "failure to start proxy : no" }}, "direct")
	p.wait("snapshot_sent")
	web := pod(t, "web")
	refused(t, "what the proxy can't do", a.enroll("shop/web", web), "step announce", "failure to start proxy : no")
	p.wait("del shop/web")
	nothing(t, a, web)
}

func TestLabProxyIsMute(t *testing.T) {
	lab.Require(t)
	testkit.NoLeaks(t)
	cfg := quick(t)
	cfg.AskWait = 50 * time.Millisecond
	a := begin(t, cfg)
	p := a.connectWith(&proxy{onAdd: func(string, *netns.Handle) string { return "mute" }}, "direct")
	p.wait("snapshot_sent")
	web := pod(t, "web")
	refused(t, "a proxy that does not answer", a.enroll("shop/web", web), "step announce", "no answer")
	testkit.Receive(t, testkit.Wait, "the end of its connection", closing(p.done))
	nothing(t, a, web)
	if s := a.list().Stats; s.AskTimeouts != 1 || s.LinkErrors != 1 {
		t.Errorf("counters are %+v; want one time-out and the link dropped", s)
	}
}

func closing(done chan struct{}) <-chan bool {
	ch := make(chan bool, 1)
	go func() { <-done; ch <- true }()
	return ch
}

func TestLabProxyDiesWhileAsked(t *testing.T) {
	lab.Require(t)
	testkit.NoLeaks(t)
	a := begin(t, quick(t))
	p := &proxy{}
	p.onAdd = func(string, *netns.Handle) string { p.c.Close(); return "" }
	a.connectWith(p, "direct")
	p.wait("snapshot_sent")
	web := pod(t, "web")
	refused(t, "a proxy that dies", a.enroll("shop/web", web), "step announce")
	nothing(t, a, web)
}

// hold makes a table that nobody else may change: it has an owner (nft, flag
// owner). The returned function lets go of it.
func hold(t *testing.T, path string) (release func()) {
	t.Helper()
	cmd := exec.Command("ip", "netns", "exec", filepath.Base(path), "nft", "-i")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	release = func() { in.Close(); cmd.Wait() }
	t.Cleanup(release)
	if _, err := in.Write([]byte("add table inet sluice { flags owner; }\n")); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, testkit.Wait, "the owned table", func() bool { return strings.Contains(kernel(t, path), "table") })
	return release
}

// The table can't be made, nor can taking it back remove what is there: the pod
// stays known until it can.
func TestLabCaptureFailsAndSoDoesUndoing(t *testing.T) {
	lab.Require(t)
	testkit.NoLeaks(t)
	a := begin(t, quick(t))
	web := pod(t, "web")
	held := make(chan func(), 1)
	p := a.connectWith(&proxy{onAdd: func(string, *netns.Handle) string { held <- hold(t, web); return "" }}, "direct")
	p.wait("snapshot_sent")
	refused(t, "a table of somebody else", a.enroll("shop/web", web), "step capture", "taking it back has failed")
	if got := a.list(); len(got.Pods) != 1 || got.Pods[0].Phase != agent.Undoing || got.Pods[0].LastError == "" {
		t.Fatalf("list says %+v; want a pod whose undoing goes on", got.Pods)
	}
	refused(t, "enrolling it meanwhile", a.enroll("shop/web", web), "being removed")
	if got := p.heard(); !strings.HasPrefix(got, "snapshot_sent, add shop/web, del shop/web") {
		t.Errorf("proxy heard %q", got)
	}
	(<-held)()
	testkit.Eventually(t, testkit.Wait, "undoing to end", func() bool { return len(a.list().Pods) == 0 })
	nothing(t, a, web)
	if s := a.list().Stats; s.Retried == 0 {
		t.Errorf("counters are %+v; want retries", s)
	}
}

func TestLabStateCantBeWritten(t *testing.T) {
	a, p := setup(t)
	web := pod(t, "web")
	if err := os.Remove(filepath.Join(a.cfg.StateDir, "pods")); err != nil {
		t.Fatal(err)
	}
	refused(t, "a pod that can't be written down", a.enroll("shop/web", web), "step state")
	if got := p.heard(); got != "" || kernel(t, web) != "" {
		t.Errorf("proxy heard %q, the pod has %q; want it untouched", got, kernel(t, web))
	}
}
