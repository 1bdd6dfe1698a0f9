package agent_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/redirect"
	"github.com/sluice-mesh/sluice/redirect/agent"
	"github.com/sluice-mesh/sluice/redirect/apply"
)

// The agent ends and rules, flows and listeners stay; the next one knows every pod
// before it tells a proxy that its snapshot is complete.
func TestLabRestart(t *testing.T) {
	a, p := setup(t)
	one, two := pod(t, "one"), pod(t, "two")
	a.mustEnroll("one", one)
	a.mustEnroll("two", two)
	a.stop()
	if kernel(t, one) != captured || kernel(t, two) != captured {
		t.Error("the agent's end took rules along")
	}
	if !p.serves("one") {
		t.Error("the proxy lost a pod")
	}
	p.kill() // this one does not come back
	if _, err := os.Stat(a.cfg.EnrollSocket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("enrolment socket: %v; want it gone", err)
	}
	_, err := a.ask(agent.Request{Op: agent.OpList}, nil)
	refused(t, "asking nobody", err, "is the agent running")

	b := begin(t, a.cfg)
	b.want("one:enrolled two:enrolled")
	q := b.connect("direct")
	q.wait("snapshot_sent")
	if got := q.heard(); got != "add one, add two, snapshot_sent" {
		t.Errorf("proxy heard %q", got)
	}
	b.want("one:enrolled+ two:enrolled+")
	if err := b.unenroll("one", false); err != nil {
		t.Fatal(err)
	}
	if got := kernel(t, one); got != "" {
		t.Errorf("left behind: %q; want sysctls put back by another agent, too", got)
	}
}

// crash leaves what an agent that was killed in phase leaves: the pod's file says
// how far it had come, and the kernel holds part of what was to come, or all.
func crash(t *testing.T, phase agent.Phase, table bool) (cfg agent.Config, path string) {
	t.Helper()
	a, p := setup(t)
	path = pod(t, "web")
	a.mustEnroll("web", path)
	a.stop()
	p.kill()
	rewrite(t, a, func(r map[string]any) { r["phase"] = phase })
	if !table {
		command(t, "ip", "netns", "exec", base(path), "nft", "delete", "table", "inet", "sluice")
	}
	// An agent that was killed leaves its sockets' files, and half a state file.
	for _, name := range []string{a.cfg.ZDSSocket, a.cfg.EnrollSocket} {
		l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		l.Close()
	}
	if err := os.WriteFile(filepath.Join(a.cfg.StateDir, "pods", ".new-1"), []byte(`{"version`), 0o600); err != nil {
		t.Fatal(err)
	}
	return a.cfg, path
}

// rewrite changes the one pod's file.
func rewrite(t *testing.T, a *running, change func(map[string]any)) {
	t.Helper()
	files := a.files()
	if len(files) != 1 {
		t.Fatalf("files %v; want one", files)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	r := map[string]any{}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	change(r)
	if text, err = json.Marshal(r); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Whatever the phase in which an agent was killed: the next one brings the pod to
// one of two ends, with the proxy of the same opinion.
func TestLabKilledInEveryPhase(t *testing.T) {
	for _, tt := range []struct {
		phase  agent.Phase
		table  bool // nf_tables table is there
		before string
		then   string // phases with a proxy
		asked  string // what the proxy hears first
	}{
		{agent.Preparing, false, "", "", "snapshot_sent"},
		{agent.Announcing, false, "web:announcing", "web:enrolled+", "add web, snapshot_sent"},
		{agent.Capturing, false, "web:capturing", "web:enrolled+", "add web, snapshot_sent"},
		{agent.Capturing, true, "web:capturing", "web:enrolled+", "add web, snapshot_sent"},
		{agent.Enrolled, true, "web:enrolled", "web:enrolled+", "add web, snapshot_sent"},
		{agent.Leaving, true, "", "", "snapshot_sent"},
		{agent.Leaving, false, "", "", "snapshot_sent"},
		{agent.Undoing, false, "", "", "snapshot_sent"},
		{agent.Undoing, true, "", "", "snapshot_sent"},
	} {
		name := string(tt.phase)
		if tt.table {
			name += " with table"
		}
		t.Run(name, func(t *testing.T) {
			cfg, path := crash(t, tt.phase, tt.table)
			a := begin(t, cfg)
			a.want(tt.before)
			p := a.connect("direct")
			p.wait("snapshot_sent")
			p.mu.Lock()
			asked := strings.Join(p.said, ", ")
			p.mu.Unlock()
			if !strings.HasPrefix(asked, tt.asked) {
				t.Errorf("proxy heard %q; want %q first", asked, tt.asked)
			}
			a.want(tt.then)
			want := captured
			if tt.then == "" {
				want = ""
			}
			if got := kernel(t, path); got != want {
				t.Errorf("the pod has %q; want %q", got, want)
			}
			if p.serves("web") != (tt.then != "") {
				t.Errorf("proxy serves the pod: %v", p.serves("web"))
			}
			left, err := filepath.Glob(filepath.Join(cfg.StateDir, "*", "*"))
			if err != nil || tt.then == "" && len(left) != 0 {
				t.Errorf("left in the state folder: %v, %v", left, err)
			}
		})
	}
}

// A pod that was leaving stays when flows live by now.
func TestLabKilledWhileLeavingWithFlows(t *testing.T) {
	cfg, path := crash(t, agent.Leaving, true)
	holder := &proxy{pods: map[string]*sys.FD{}}
	if err := holder.pin(opened(t, path)); err != nil {
		t.Fatal(err)
	}
	defer holder.unpin()
	a := begin(t, cfg)
	a.want("web:enrolled")
	a.connect("direct")
	a.want("web:enrolled+")
	if got := kernel(t, path); got != captured {
		t.Errorf("the pod has %q", got)
	}
}

// A pod in the middle of its enrolment waits for a proxy, tells why, and can be
// given up.
func TestLabUnfinishedWaitsForProxy(t *testing.T) {
	cfg, path := crash(t, agent.Announcing, false)
	a := begin(t, cfg)
	a.want("web:announcing")
	refused(t, "going on without a proxy", a.enroll("web", path), "no proxy is connected")
	if p := a.list().Pods[0]; !strings.Contains(p.LastError, "no proxy") {
		t.Errorf("list says %+v; want the reason", p)
	}
	if err := a.unenroll("web", false); err != nil {
		t.Error(err)
	}
	if got := kernel(t, path); got != "" {
		t.Errorf("left behind: %q", got)
	}
}

// A namespace that died while no agent ran, and one that took its name and number.
func TestLabDeadNamespaceAtStart(t *testing.T) {
	cfg, path := crash(t, agent.Enrolled, true)
	destroy(t, path)
	a := begin(t, cfg)
	a.want("")
	if s := a.list().Stats; s.Dropped != 1 || len(a.files()) != 0 {
		t.Errorf("counters are %+v, files %v; want one pod dropped", s, a.files())
	}
	p := a.connect("direct")
	p.wait("snapshot_sent")
	if got := p.heard(); got != "snapshot_sent" {
		t.Errorf("proxy heard %q", got)
	}
}

func TestLabOtherNamespaceAtStart(t *testing.T) {
	for name, change := range map[string]func(map[string]any){
		"inode":  func(place map[string]any) { place["ino"] = place["ino"].(float64) + 1 },
		"device": func(place map[string]any) { place["dev"] = place["dev"].(float64) + 1 },
		// The kernel gives inode numbers again at once; the cookie tells.
		"cookie": func(place map[string]any) { place["cookie"] = place["cookie"].(float64) + 1 },
		"boot":   func(place map[string]any) { place["boot"] = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			cfg, path := crash(t, agent.Enrolled, true)
			rewrite(t, &running{t: t, cfg: withoutHalf(t, cfg)}, func(r map[string]any) { change(r["netns"].(map[string]any)) })
			a := begin(t, cfg)
			a.want("")
			if s := a.list().Stats; s.Dropped != 1 {
				t.Errorf("counters are %+v; want one pod dropped", s)
			}
			if got := kernel(t, path); got != captured {
				t.Errorf("the namespace that is there has %q; want it left alone", got)
			}
		})
	}
}

// withoutHalf removes the half state file that crash left.
func withoutHalf(t *testing.T, cfg agent.Config) agent.Config {
	t.Helper()
	if err := os.Remove(filepath.Join(cfg.StateDir, "pods", ".new-1")); err != nil {
		t.Fatal(err)
	}
	return cfg
}

// The namespace lives, but under another name: it is found.
func TestLabRenamedNamespace(t *testing.T) {
	cfg, path := crash(t, agent.Enrolled, true)
	other := path + "-moved"
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { destroy(t, other) })
	command(t, "mount", "--bind", path, other)
	destroy(t, path)
	a := begin(t, cfg)
	a.want("web:enrolled")
	if got := a.list().Pods[0].Netns; got != other {
		t.Errorf("found at %q; want %q", got, other)
	}
}

// A namespace that can't be looked at just now is no dead one: the proxy is asked
// to keep the pod, and gets it when it can be opened.
func TestLabUnreadableNamespaceIsKept(t *testing.T) {
	cfg, path := crash(t, agent.Enrolled, true)
	loop := filepath.Join(t.TempDir(), "loop")
	if err := os.Symlink(loop, loop); err != nil {
		t.Fatal(err)
	}
	// Its only name is out of sight, and what the file says can't be followed.
	away := filepath.Join(t.TempDir(), "away")
	if err := os.WriteFile(away, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, "mount", "--bind", path, away)
	t.Cleanup(func() { command(t, "umount", away) })
	destroy(t, path)
	rewrite(t, &running{t: t, cfg: withoutHalf(t, cfg)}, func(r map[string]any) { r["netns"].(map[string]any)["path"] = loop })

	a := begin(t, cfg)
	a.want("web:enrolled")
	p := a.connect("direct")
	p.wait("snapshot_sent")
	if got := p.heard(); got != "keep web, snapshot_sent" {
		t.Errorf("proxy heard %q", got)
	}
	if got := a.list().Pods[0]; got.Acked || !strings.Contains(got.LastError, loop) {
		t.Errorf("list says %+v; want the reason", got)
	}
	refused(t, "leaving", a.unenroll("web", false), loop)
	if err := os.Remove(loop); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(away, loop); err != nil {
		t.Fatal(err)
	}
	p.wait("add web")
	a.want("web:enrolled+")
}

// A file that can't be believed keeps the agent from starting: the proxy would be
// told to drop that pod.
func TestLabBadStateFile(t *testing.T) {
	cfg, path := crash(t, agent.Enrolled, true)
	bad := filepath.Join(cfg.StateDir, "pods", "bad-1.json")
	if err := os.WriteFile(bad, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, "a bad file", runOnce(t, cfg), bad, "delete the file")
	if got := kernel(t, path); got != captured {
		t.Errorf("the pod has %q", got)
	}
}

func TestLabSameNamespaceTwiceInState(t *testing.T) {
	cfg, _ := crash(t, agent.Enrolled, true)
	a := &running{t: t, cfg: withoutHalf(t, cfg)}
	first := a.files()[0]
	text, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	b := begin(t, cfg) // writes a second file, of another namespace
	b.connect("direct").wait("snapshot_sent")
	b.mustEnroll("other", pod(t, "other"))
	b.stop()
	if err := os.Remove(first); err != nil {
		t.Fatal(err)
	}
	second := a.files()[0]
	other, err := os.ReadFile(second)
	if err != nil {
		t.Fatal(err)
	}
	var r, s map[string]any
	if err := errors.Join(json.Unmarshal(text, &r), json.Unmarshal(other, &s)); err != nil {
		t.Fatal(err)
	}
	s["netns"] = r["netns"]
	if other, err = json.Marshal(s); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(first, text, 0o600), os.WriteFile(second, other, 0o600)); err != nil {
		t.Fatal(err)
	}
	refused(t, "one namespace for two pods", runOnce(t, cfg), "web", "other", "both")
}

// runOnce runs an agent that does not get far.
func runOnce(t *testing.T, cfg agent.Config) error {
	t.Helper()
	a, err := agent.New(cfg, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		return err
	}
	end := make(chan error, 1)
	go func() { end <- a.Run(t.Context()) }()
	return testkit.Receive(t, testkit.Wait, "end of the agent", end)
}

func TestLabOneAgentAtATime(t *testing.T) {
	a, _ := setup(t)
	err := runOnce(t, a.cfg)
	if !errors.Is(err, agent.ErrRunning) {
		t.Errorf("a second agent: %v; want it refused", err)
	}
	a.list() // the first one's sockets are still there

	// Another state folder does not make the sockets free.
	cfg := a.cfg
	cfg.StateDir = t.TempDir()
	refused(t, "same sockets", runOnce(t, cfg), "another process listens")
	a.list()
}

func TestLabSocketsThatCantBe(t *testing.T) {
	lab.Require(t)
	testkit.NoLeaks(t)
	for _, tt := range []struct {
		name   string
		change func(cfg *agent.Config, dir string)
		want   string
	}{
		{"proxies", func(c *agent.Config, dir string) { c.ZDSSocket = dir }, "no socket"},
		{"enrolment", func(c *agent.Config, dir string) { c.EnrollSocket = filepath.Join(dir, "full") }, "no socket"},
		{"state", func(c *agent.Config, dir string) { c.StateDir = filepath.Join(dir, "full", "x") }, "full"},
	} {
		cfg := quick(t)
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "full"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		tt.change(&cfg, dir)
		refused(t, tt.name, runOnce(t, cfg), tt.want)
	}
}

// What is enrolled twice by different hands: capture that is there already.
func TestLabAlreadyCapturedByHand(t *testing.T) {
	a, _ := setup(t)
	web := pod(t, "web")
	if _, err := apply.Apply(opened(t, web), redirect.Intent{}, apply.StateDir(a.cfg.StateDir)); err != nil {
		t.Fatal(err)
	}
	a.mustEnroll("web", web)
	a.want("web:enrolled+")
	if err := a.unenroll("web", false); err != nil {
		t.Fatal(err)
	}
	if got := kernel(t, web); got != "" {
		t.Errorf("left behind: %q", got)
	}
}
