package rt_test

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/redirect"
	"github.com/sluice-mesh/sluice/redirect/rt"
)

// openPod is a pod and a Conn to it.
func openPod(t *testing.T) (*lab.Space, *rt.Conn) {
	t.Helper()
	testkit.NoLeaks(t)
	pod := lab.New(t, lab.Simple(1, 1, 0)).Find("p1")
	c, err := rt.Open(pod.Handle())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return pod, c
}

func plan(t *testing.T) redirect.Plan {
	t.Helper()
	p, err := redirect.NewPlan(redirect.Intent{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// routing is what ip shows of a pod's policy rules and of all its routes.
func routing(t *testing.T, pod *lab.Space) string {
	t.Helper()
	var b strings.Builder
	for _, f := range []string{"-4", "-6"} {
		b.WriteString(lab.Output(t, pod, "ip", f, "rule"))
		b.WriteString(settled(lab.Output(t, pod, "ip", f, "route", "show", "table", "all")))
	}
	return b.String()
}

// Added twice, deleted twice: done once each, and then everything is as before.
// The commands of Script make the same.
func TestLabRulesAndRoutes(t *testing.T) {
	pod, c := openPod(t)
	lab.Output(t, pod, "ip", "rule", "add", "fwmark", "0x111/0xffff", "pref", "10", "lookup", "100")
	lab.Output(t, pod, "ip", "rule", "add", "from", "192.0.2.1", "pref", "10", "lookup", "42")
	before := routing(t, pod)
	p := plan(t)
	for _, want := range []bool{true, false} {
		for _, r := range p.Routes {
			if added, err := c.AddRoute(r); err != nil || added != want {
				t.Errorf("add %+v: %v, %v; want %v", r, added, err, want)
			}
		}
		for _, r := range p.Rules {
			if added, err := c.AddRule(r); err != nil || added != want {
				t.Errorf("add %+v: %v, %v; want %v", r, added, err, want)
			}
		}
	}
	made := routing(t, pod)
	for _, want := range []string{
		"10:\tfrom all fwmark 0x111/0xfff lookup 100", "11:\tfrom all fwmark 0x53a/0xfff lookup 100",
		"local default dev lo table 100 scope host", "local default dev lo table 100 metric",
	} {
		if !strings.Contains(made, want) {
			t.Errorf("no %q in\n%s", want, made)
		}
	}
	for _, want := range []bool{true, false} {
		for _, r := range p.Rules {
			if deleted, err := c.DelRule(r); err != nil || deleted != want {
				t.Errorf("delete %+v: %v, %v; want %v", r, deleted, err, want)
			}
		}
		for _, r := range p.Routes {
			if deleted, err := c.DelRoute(r); err != nil || deleted != want {
				t.Errorf("delete %+v: %v, %v; want %v", r, deleted, err, want)
			}
		}
	}
	if got := routing(t, pod); got != before {
		t.Errorf("was\n%s\nis\n%s", before, got)
	}
	lab.Output(t, pod, "sh", "-ec", rt.Script(p))
	if got := routing(t, pod); got != made {
		t.Errorf("commands make\n%s\nand we\n%s", got, made)
	}
	lab.Output(t, pod, "sh", "-ec", rt.Undo(p))
	if got := routing(t, pod); got != before {
		t.Errorf("was\n%s\nis\n%s", before, got)
	}
}

// What is somebody else's is named and left alone.
func TestLabForeignRouting(t *testing.T) {
	for _, tt := range []struct {
		name, make string
		try        func(*rt.Conn, redirect.Plan) error
	}{
		{"default route in our table", "ip route add default dev eth0 table 100",
			func(c *rt.Conn, p redirect.Plan) error { _, err := c.AddRoute(p.Routes[0]); return err }},
		{"narrow route in our table", "ip route add 192.0.2.77 dev eth0 table 100",
			func(c *rt.Conn, p redirect.Plan) error { _, err := c.AddRoute(p.Routes[0]); return err }},
		{"IPv6 route in our table", "ip -6 route add default dev eth0 table 100",
			func(c *rt.Conn, p redirect.Plan) error { _, err := c.AddRoute(p.Routes[1]); return err }},
		{"narrower rule, add", "ip rule add from 192.0.2.1 fwmark 0x111/0xfff pref 10 lookup 100",
			func(c *rt.Conn, p redirect.Plan) error { _, err := c.AddRule(p.Rules[0]); return err }},
		{"narrower rule, delete", "ip rule add iif eth0 fwmark 0x111/0xfff pref 10 lookup 100",
			func(c *rt.Conn, p redirect.Plan) error { _, err := c.DelRule(p.Rules[0]); return err }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pod, c := openPod(t)
			lab.Output(t, pod, "sh", "-ec", tt.make)
			before := routing(t, pod)
			if err := tt.try(c, plan(t)); !errors.Is(err, rt.ErrForeign) {
				t.Errorf("got %v; want ErrForeign", err)
			}
			if got := routing(t, pod); got != before {
				t.Errorf("was\n%s\nis\n%s", before, got)
			}
		})
	}
}

// A route of somebody else's beside ours survives the deletion of ours.
func TestLabDelRouteKeepsForeign(t *testing.T) {
	pod, c := openPod(t)
	r := plan(t).Routes[0]
	if _, err := c.AddRoute(r); err != nil {
		t.Fatal(err)
	}
	lab.Output(t, pod, "ip", "route", "add", "192.0.2.77", "dev", "eth0", "table", "100")
	if deleted, err := c.DelRoute(r); err != nil || !deleted {
		t.Errorf("deleted: %v, %v", deleted, err)
	}
	if got := lab.Output(t, pod, "ip", "route", "show", "table", "100"); !strings.HasPrefix(got, "192.0.2.77 dev eth0") || strings.Contains(got, "local") {
		t.Errorf("table 100 is %q", got)
	}
}

func TestLabLoopbackDown(t *testing.T) {
	pod, c := openPod(t)
	lab.Output(t, pod, "ip", "link", "set", "lo", "down")
	if _, err := c.AddRoute(plan(t).Routes[0]); err == nil || !strings.Contains(err.Error(), "lo is down") {
		t.Errorf("got %v; want an error that says that lo is down", err)
	}
}

func TestLabAddresses(t *testing.T) {
	pod, c := openPod(t)
	own, err := c.Addresses()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []netip.Addr{pod.Addr4, pod.Addr6, pod.Second4, pod.Second6} {
		if !slices.Contains(own, want) {
			t.Errorf("%v is not among %v", want, own)
		}
	}
}

func TestLabSysctl(t *testing.T) {
	pod, _ := openPod(t)
	const name = "net.ipv4.fwmark_reflect"
	host, err := ownSysctl(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.SetSysctl(pod.Handle(), name, "1"); err != nil {
		t.Fatal(err)
	}
	if got, err := rt.Sysctl(pod.Handle(), name); got != "1" || err != nil {
		t.Errorf("read %q, %v; want 1", got, err)
	}
	if got, err := ownSysctl(name); got != host || err != nil {
		t.Errorf("the host's became %q, %v; it was %q", got, err, host)
	}
	if _, err := rt.Sysctl(pod.Handle(), "net.ipv4.sluice_none"); !errors.Is(err, rt.ErrNoSysctl) {
		t.Errorf("read of no sysctl: %v; want ErrNoSysctl", err)
	}
	if err := rt.SetSysctl(pod.Handle(), "net.ipv4.sluice_none", "1"); !errors.Is(err, rt.ErrNoSysctl) {
		t.Errorf("write of no sysctl: %v; want ErrNoSysctl", err)
	}
}

func TestLabHasFamily(t *testing.T) {
	pod, _ := openPod(t)
	for _, off := range []string{"0", "1"} {
		if err := pod.SetSysctl("net.ipv6.conf.all.disable_ipv6", off); err != nil {
			t.Fatal(err)
		}
		if has, err := rt.HasFamily(pod.Handle(), redirect.IPv6); has != (off == "0") || err != nil {
			t.Errorf("disable_ipv6=%s: IPv6 %v, %v", off, has, err)
		}
		if has, err := rt.HasFamily(pod.Handle(), redirect.IPv4); !has || err != nil {
			t.Errorf("disable_ipv6=%s: IPv4 %v, %v", off, has, err)
		}
	}
}

// ownSysctl reads a sysctl in the namespace of the test itself.
func ownSysctl(name string) (string, error) {
	b, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	return strings.TrimSpace(string(b)), err
}

// settled takes out of ip's output what the kernel adds by itself, which it does
// when a link comes up: a moment after the lab is built.
func settled(routes string) string {
	var rest []string
	for line := range strings.Lines(routes) {
		if !strings.Contains(line, "proto kernel") {
			rest = append(rest, line)
		}
	}
	return strings.Join(rest, "")
}
