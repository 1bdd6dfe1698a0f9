package apply_test

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/redirect"
	"github.com/sluice-mesh/sluice/redirect/apply"
	"github.com/sluice-mesh/sluice/redirect/rt"
)

// Applied twice and removed twice, among things of other people: what is theirs
// stays, and after the removal everything is as before.
func TestLabApplyTwiceRemoveTwice(t *testing.T) {
	for _, in := range []redirect.Intent{{}, {DNS: true}} {
		s := newScene(t)
		lab.Output(t, s.pod, "nft", "-f", write(t, `
table inet other {
	chain out {
		type filter hook output priority 0; policy accept;
		meta mark set meta mark | 0x10000
	}
}
table ip sluice {
	chain x {
	}
}
`))
		lab.Output(t, s.pod, "sh", "-ec", `
ip rule add fwmark 0x10000/0xff0000 pref 10 lookup 77
ip rule add from 192.0.2.200 pref 9 lookup 78
ip -6 rule add fwmark 0x111/0xffff pref 11 lookup 100
ip route add 192.0.2.201 dev eth0 table 77
`)
		if err := s.pod.SetSysctl("net.ipv4.fwmark_reflect", "1"); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, s.pod)

		if res := s.apply(t, in); res != (apply.Result{}) {
			t.Errorf("first time: %+v", res)
		}
		made := snapshot(t, s.pod)
		for _, want := range []string{"table inet sluice", "fwmark 0x111/0xfff lookup 100", "table inet other", "lookup 77",
			"net.ipv4.tcp_fwmark_accept 1", "net.ipv4.fwmark_reflect 1", "net.ipv6.fwmark_reflect 1"} {
			if !strings.Contains(made, want) {
				t.Errorf("no %q in\n%s", want, made)
			}
		}
		if res := s.apply(t, in); res != (apply.Result{Already: true}) {
			t.Errorf("second time: %+v", res)
		}
		unchanged(t, s.pod, made)

		if gone := s.remove(t, apply.RemoveOptions{}); gone != (apply.Removed{Table: true, Rules: 4, Routes: 2, Sysctls: 2}) {
			t.Errorf("removed %+v", gone)
		}
		unchanged(t, s.pod, before)
		if files := s.kept(t); len(files) != 0 {
			t.Errorf("state is left: %v", files)
		}
		if gone := s.remove(t, apply.RemoveOptions{}); gone != (apply.Removed{}) {
			t.Errorf("removed twice: %+v", gone)
		}
		unchanged(t, s.pod, before)
	}
}

// Remove takes back whatever a crash left: after any step of the way in, and of
// the way out.
func TestLabRemoveFromAnyState(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(t *testing.T, s scene)
	}{
		{"only prepared", func(t *testing.T, s scene) {
			if err := apply.Prepare(s.pod.Handle(), redirect.Intent{}, s.state); err != nil {
				t.Fatal(err)
			}
		}},
		{"only captured", func(t *testing.T, s scene) {
			if _, err := apply.Capture(s.pod.Handle(), redirect.Intent{}); err != nil {
				t.Fatal(err)
			}
		}},
		{"only sysctls", func(t *testing.T, s scene) {
			s.apply(t, redirect.Intent{})
			lab.Output(t, s.pod, "sh", "-ec", "nft flush ruleset; ip rule del pref 10; ip rule del pref 11; ip -6 rule del pref 10; ip -6 rule del pref 11; ip route flush table 100; ip -6 route flush table 100")
		}},
		{"without one rule and one route", func(t *testing.T, s scene) {
			s.apply(t, redirect.Intent{})
			lab.Output(t, s.pod, "sh", "-ec", "ip -6 rule del pref 10; ip route flush table 100")
		}},
		{"table gone", func(t *testing.T, s scene) {
			s.apply(t, redirect.Intent{DNS: true})
			lab.Output(t, s.pod, "nft", "delete", "table", "inet", "sluice")
		}},
		{"table emptied", func(t *testing.T, s scene) {
			s.apply(t, redirect.Intent{})
			lab.Output(t, s.pod, "nft", "flush", "table", "inet", "sluice")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene(t)
			before := snapshot(t, s.pod)
			tt.spoil(t, s)
			if snapshot(t, s.pod) == before {
				t.Fatal("nothing was done")
			}
			s.remove(t, apply.RemoveOptions{})
			unchanged(t, s.pod, before)
			if files := s.kept(t); len(files) != 0 {
				t.Errorf("state is left: %v", files)
			}
		})
	}
}

// Capture goes on after a half-done apply, and makes the same as a whole one.
func TestLabApplyAfterHalfDone(t *testing.T) {
	s := newScene(t)
	s.apply(t, redirect.Intent{})
	want := snapshot(t, s.pod)
	before := len(s.kept(t))
	lab.Output(t, s.pod, "sh", "-ec", "nft flush table inet sluice; ip rule del pref 10; ip -6 route flush table 100; sysctl -qw net.ipv4.fwmark_reflect=0")
	s.apply(t, redirect.Intent{})
	unchanged(t, s.pod, want)
	if n := len(s.kept(t)); n != before || n != 1 {
		t.Errorf("%d state files; want 1", n)
	}
	s.remove(t, apply.RemoveOptions{})
	for _, name := range sysctls() {
		if value, err := s.pod.Sysctl(name); value != "0" || err != nil {
			t.Errorf("%s is %q, %v; want the value of before the first apply", name, value, err)
		}
	}
}

// Values of the sysctls that are not ours to change back stay; a lost or broken
// state file costs the sysctls only, and says so.
func TestLabSysctlsPutBack(t *testing.T) {
	s := newScene(t)
	s.apply(t, redirect.Intent{})
	// Somebody else wants another value meanwhile.
	if err := s.pod.SetSysctl("net.ipv4.fwmark_reflect", "0"); err != nil {
		t.Fatal(err)
	}
	if gone := s.remove(t, apply.RemoveOptions{}); gone.Sysctls != 2 {
		t.Errorf("put back %d sysctls; want 2", gone.Sysctls)
	}

	s.apply(t, redirect.Intent{})
	if err := s.state.Forget(s.pod.Handle()); err != nil {
		t.Fatal(err)
	}
	if gone := s.remove(t, apply.RemoveOptions{}); gone.Sysctls != 0 || !gone.Table || gone.Rules != 4 {
		t.Errorf("removed %+v without state", gone)
	}
	if value, err := s.pod.Sysctl("net.ipv4.tcp_fwmark_accept"); value != "1" || err != nil {
		t.Errorf("a sysctl whose old value nobody knows became %q, %v", value, err)
	}
}

// A step that fails takes back the ones before it, and no more than those.
func TestLabPrepareTakesBack(t *testing.T) {
	s := newScene(t)
	// The last family's route is in the way: IPv4 and the sysctls come first.
	lab.Output(t, s.pod, "ip", "-6", "route", "add", "2001:db8:77::/64", "dev", "eth0", "table", "100")
	before := snapshot(t, s.pod)
	for what, try := range map[string]func() error{
		"prepare": func() error { return apply.Prepare(s.pod.Handle(), redirect.Intent{}, s.state) },
		"apply":   func() error { _, err := apply.Apply(s.pod.Handle(), redirect.Intent{}, s.state); return err },
	} {
		if err := try(); !errors.Is(err, rt.ErrForeign) {
			t.Errorf("%s: %v; want ErrForeign", what, err)
		}
		unchanged(t, s.pod, before)
		if files := s.kept(t); len(files) != 0 {
			t.Errorf("%s: state is left: %v", what, files)
		}
	}
	lab.Output(t, s.pod, "ip", "-6", "route", "flush", "table", "100")
	before = snapshot(t, s.pod)
	err := apply.PrepareAndUndo(s.pod.Handle(), redirect.Intent{}, s.state, func() {
		if snapshot(t, s.pod) == before {
			t.Error("nothing was prepared")
		}
	})
	if err != nil {
		t.Error(err)
	}
	unchanged(t, s.pod, before)

	// What was there before is not taken back.
	s.apply(t, redirect.Intent{})
	made := snapshot(t, s.pod)
	if err := apply.PrepareAndUndo(s.pod.Handle(), redirect.Intent{}, s.state, func() {}); err != nil {
		t.Error(err)
	}
	unchanged(t, s.pod, made)
	if files := s.kept(t); len(files) != 1 {
		t.Errorf("the state of the first apply is gone: %v", files)
	}
}

// A kernel without an expression: a clear error, and nothing half done.
func TestLabMissingExpression(t *testing.T) {
	s := newScene(t)
	before := snapshot(t, s.pod)
	in := redirect.Intent{Require: []string{"socket", "sluice_none"}}
	_, applied := apply.Apply(s.pod.Handle(), in, s.state)
	_, captured := apply.Capture(s.pod.Handle(), in)
	for what, err := range map[string]error{
		"prepare": apply.Prepare(s.pod.Handle(), in, s.state), "apply": applied, "capture": captured,
	} {
		if !errors.Is(err, sys.ErrUnsupported) || !strings.Contains(err.Error(), "sluice_none") {
			t.Errorf("%s: %v; want ErrUnsupported that names the expression", what, err)
		}
	}
	unchanged(t, s.pod, before)
	s.apply(t, redirect.Intent{Require: []string{"socket", "tproxy"}})
}

func TestLabRefusesBadIntent(t *testing.T) {
	s := newScene(t)
	before := snapshot(t, s.pod)
	for _, in := range []redirect.Intent{
		{Mode: redirect.ModeRedirect},
		{Probe4: netip.MustParseAddr("127.0.0.1")},
	} {
		if _, err := apply.Apply(s.pod.Handle(), in, s.state); err == nil {
			t.Errorf("no error for %+v", in)
		}
	}
	unchanged(t, s.pod, before)
}

// The state can't be written: nothing is changed, since nothing could be put back.
func TestLabNoStateNoChange(t *testing.T) {
	s := newScene(t)
	before := snapshot(t, s.pod)
	for _, dir := range []apply.StateDir{"", "/proc/sluice-none"} {
		if _, err := apply.Apply(s.pod.Handle(), redirect.Intent{}, dir); err == nil {
			t.Errorf("no error for state folder %q", dir)
		}
		unchanged(t, s.pod, before)
	}
}

// IPv6 switched off: no route and no rule of it, the same table, and back.
func TestLabPodWithoutIPv6(t *testing.T) {
	testkit.NoLeaks(t)
	l := lab.New(t, lab.Topology{Nodes: []lab.NodeSpec{{Name: "n1", Pods: []lab.PodSpec{{Name: "p1", NoIPv6: true}, {Name: "p2"}}}}})
	s := scene{l.Find("p1"), l.Find("p2"), apply.StateDir(t.TempDir())}
	before := snapshot(t, s.pod)
	s.apply(t, redirect.Intent{})
	if got := lab.Output(t, s.pod, "ip", "-6", "rule"); strings.Contains(got, "0x111") {
		t.Errorf("IPv6 rules: %s", got)
	}
	table := lab.Output(t, s.pod, "nft", "list", "table", "inet", "sluice")
	if gone := s.remove(t, apply.RemoveOptions{}); gone.Rules != 2 || gone.Routes != 1 {
		t.Errorf("removed %+v", gone)
	}
	unchanged(t, s.pod, before)

	other := scene{s.peer, s.pod, s.state}
	other.apply(t, redirect.Intent{})
	if got := lab.Output(t, other.pod, "nft", "list", "table", "inet", "sluice"); got != table {
		t.Errorf("with IPv6 the table is\n%s\nwithout\n%s", got, table)
	}
	// Switched off behind our back.
	if err := other.pod.SetSysctl("net.ipv6.conf.all.disable_ipv6", "1"); err != nil {
		t.Fatal(err)
	}
	other.remove(t, apply.RemoveOptions{})
	if got := snapshot(t, other.pod); strings.Contains(got, "lookup 100") || strings.Contains(got, "sluice") {
		t.Errorf("left behind:\n%s", got)
	}
}

// A state file from before the machine was started again is not believed, and a
// broken one is an error that says what to do.
func TestLabStateFile(t *testing.T) {
	s := newScene(t)
	s.apply(t, redirect.Intent{})
	files := s.kept(t)
	if len(files) != 1 {
		t.Fatalf("state is %v", files)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	spoil := func(text string) {
		t.Helper()
		if err := os.WriteFile(files[0], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spoil("{")
	if _, err := apply.Remove(s.pod.Handle(), s.state, apply.RemoveOptions{}); err == nil || !strings.Contains(err.Error(), files[0]) {
		t.Errorf("broken state: %v; want an error that names %s", err, files[0])
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	spoil(strings.Replace(string(text), strings.TrimSpace(string(boot)), "another", 1))
	if gone := s.remove(t, apply.RemoveOptions{}); gone.Sysctls != 0 {
		t.Errorf("removed %+v by an old file", gone)
	}
	if files := s.kept(t); len(files) != 0 {
		t.Errorf("state is left: %v", files)
	}
}
