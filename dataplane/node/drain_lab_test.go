package node_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/node"
	"github.com/sluice-mesh/sluice/dataplane/route"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// TestLabDrain ends the program by signal with flows open: no new ones get in,
// one that ends in time ends well, one that does not is cut at the deadline.
func TestLabDrain(t *testing.T) {
	l := lab.New(t, lab.Simple(1, 1, 1))
	s := newShipped(t, settings{loops: 2, drain: "1500ms"}, l.Nodes[0])
	pod, host := l.Nodes[0].Pods[0], l.Hosts[0]
	s.enroll(pod)
	good := joinThrough(t, pod.Space, host.Space, host.At4(7000), false)
	long := joinThrough(t, host.Space, pod.Space, pod.At4(7001), false)
	if err := s.sluice.Signal(lab.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, "the drain to begin", func() bool { return s.sluice.Logged("drain begins") })
	testkit.Eventually(t, patience, "new dials to fail closed", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		c, err := pod.Dial(ctx, host.At4(7002), lab.Socket{})
		if err == nil {
			c.Close()
		}
		return err != nil && !errors.Is(err, sys.ECONNREFUSED) && !errors.Is(err, sys.ECONNRESET)
	})
	if err := s.get(15021, "/healthz/ready", nil); err == nil {
		t.Error("it is ready while it drains")
	}
	good.send(good.client, 1000)
	good.take(good.server, 1000)
	good.shut(good.client)
	good.wantEOF(good.server, 0)
	good.shut(good.server)
	good.wantEOF(good.client, 0)
	long.send(long.client, 1000)
	long.take(long.server, 1000)
	long.wantReset(long.client)
	long.wantReset(long.server)
	exit, err := s.sluice.Wait(patience)
	if err != nil || exit.Code != 0 {
		t.Errorf("%v, %v; want exit status 0", exit, err)
	}
	for _, want := range []string{`"reason":"eof"`, `"reason":"drain"`} {
		if strings.Count(s.sluice.Log(), want) != 1 {
			t.Errorf("the log has not one line with %s", want)
		}
	}
}

// TestLabTimeouts waits for each limit, set short, and for no longer.
func TestLabTimeouts(t *testing.T) {
	for _, tt := range []struct {
		name string
		set  settings
		do   func(t *testing.T, l *lab.Lab, w way)
		want flow.CloseReason
	}{
		{"idle", settings{loops: 2, idle: "400ms"}, func(t *testing.T, l *lab.Lab, w way) {
			j := joinThrough(t, w.from, w.to, w.at, false)
			j.send(j.client, 10)
			j.take(j.server, 10)
			j.wantReset(j.client)
			j.wantReset(j.server)
		}, flow.CloseIdle},
		{"half-closed", settings{loops: 2, halfClose: "400ms"}, func(t *testing.T, l *lab.Lab, w way) {
			j := joinThrough(t, w.from, w.to, w.at, false)
			j.shut(j.client)
			j.wantEOF(j.server, 0)
			j.wantReset(j.client)
		}, flow.CloseHalf},
		{"connect", settings{loops: 2, connect: "400ms"}, func(t *testing.T, l *lab.Lab, w way) {
			lab.Output(t, w.to, "nft", muteSYN(l, w))
			defer lab.Output(t, w.to, "nft", "delete table inet mute")
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			c, err := w.from.Dial(ctx, w.at, lab.Socket{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			(&joined{t: t}).wantReset(c)
		}, flow.CloseConnect},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withProxies(t, lab.Simple(1, 1, 1), tt.set, func(t *testing.T, l *lab.Lab, p []*proxy) {
				for _, w := range ways(l, 7000)[:2] {
					before := p[0].closed(tt.want)
					tt.do(t, l, w)
					eventually(t, "the flow to end with "+tt.want.String(), func() bool { return p[0].closed(tt.want) == before+1 })
				}
			})
		})
	}
}

// TestLabSilentApplication mutes the first SYN to the application only: the dial
// tries another source port and comes up long before the kernel's retry.
func TestLabSilentApplication(t *testing.T) {
	withProxies(t, lab.Simple(1, 1, 1), settings{loops: 2}, func(t *testing.T, l *lab.Lab, p []*proxy) {
		pod, host := l.Nodes[0].Pods[0].Space, l.Hosts[0].Space
		greet(t, pod, pod.At4(7000))
		lab.Output(t, pod, "nft", `add table inet mute; add chain inet mute in { type filter hook input priority 0; };
			add rule inet mute in tcp dport 7000 tcp flags syn iifname "lo" limit rate 1/hour burst 1 packets counter drop`)
		c, err := dialGreeted(host, lab.Socket{}, pod.At4(7000), 900*time.Millisecond) // a SYN retry takes 1 s
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if n := p[0].count(metric.DialSilent); n != 1 {
			t.Errorf("%d dials tried another port; want 1", n)
		}
	})
}

// TestLabPodDrain deletes a pod with a flow open: it runs on, up to the deadline
// of pods.
func TestLabPodDrain(t *testing.T) {
	l := lab.New(t, lab.Simple(1, 1, 1))
	s := newShipped(t, settings{loops: 2, podDrain: "1s"}, l.Nodes[0])
	pod, host := l.Nodes[0].Pods[0], l.Hosts[0]
	s.enroll(pod)
	j := joinThrough(t, pod.Space, host.Space, host.At4(7000), false)
	out, err := s.node.Output(t.Context(), lab.Binary(t, "sluice-redirect"), "unenroll", "--socket", s.control(), "--uid", "lab/p1")
	if err == nil || !strings.Contains(out+err.Error(), "1") {
		t.Errorf("unenroll with a live flow says %q, %v; want a refusal that names their number", out, err)
	}
	j.send(j.client, 1000)
	j.take(j.server, 1000)
	lab.Output(t, s.node.Space, lab.Binary(t, "sluice-redirect"), "unenroll", "--force", "--socket", s.control(), "--uid", "lab/p1")
	j.wantReset(j.client)
	// Now it is a plain pod.
	k := joinThrough(t, pod.Space, host.Space, host.At4(7003), false)
	if n := s.proxy().level(metric.OpenFlows); n != 0 {
		t.Errorf("%d flows are open; the pod is not captured any more", n)
	}
	k.send(k.client, 10)
	k.take(k.server, 10)
}

// TestLabPanic has a fault while one flow is served: that flow is reset, others
// go on, and the next ones are served.
func TestLabPanic(t *testing.T) {
	l := lab.New(t, lab.Simple(1, 1, 1))
	var cfg node.Config
	cfg.Loops, cfg.ContainFaults = 2, true
	cfg.Session.Route = func(p flow.Path, tuple flow.Tuple, own flow.Addrs) flow.Verdict {
		if tuple.Dst.Port() == 7000 {
			panic("a fault of the test")
		}
		return route.Decide(p, tuple, own)
	}
	n := inProcess(t, cfg, l.Nodes[0].Pods...)
	pod, host := l.Nodes[0].Pods[0].Space, l.Hosts[0].Space
	other := joinThrough(t, host, pod, pod.At4(7001), false)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if c, err := pod.Dial(ctx, host.At4(7000), lab.Socket{}); err == nil {
		(&joined{t: t}).wantReset(c)
		c.Close()
	} else if !errors.Is(err, sys.ECONNRESET) {
		t.Errorf("dial: %v", err)
	}
	other.send(other.client, 10)
	other.take(other.server, 10)
	later := joinThrough(t, pod, host, host.At4(7002), false)
	later.send(later.client, 10)
	later.take(later.server, 10)
	m, err := n.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	if m.Count(metric.Panics) != 1 || m.Closed[flow.Outbound][flow.ClosePanic] != 1 {
		t.Errorf("%d faults, %d flows closed for one; want 1 and 1", m.Count(metric.Panics), m.Closed[flow.Outbound][flow.ClosePanic])
	}
}

// TestLabPipesExhausted has more bulk flows than pipes: the others are copied,
// and nothing is lost.
func TestLabPipesExhausted(t *testing.T) {
	withProxies(t, lab.Simple(1, 1, 1), settings{loops: 1, pipes: 1}, func(t *testing.T, l *lab.Lab, p []*proxy) {
		pod, host := l.Nodes[0].Pods[0].Space, l.Hosts[0].Space
		// A flow that holds the only pipe: it was bulk, and nobody reads any more.
		j := joinThrough(t, pod, host, host.At4(7000), false)
		go j.send(j.client, 16<<20)
		j.take(j.server, 16<<20)
		j.stuff(j.client)
		if p[0].level(metric.PipesInUse) != 1 {
			t.Fatalf("%d pipes in use; want 1", p[0].level(metric.PipesInUse))
		}
		hashes(t, pod, host, host.At4(7001), 4<<20)
		if p[0].count(metric.PipesExhausted) == 0 {
			t.Error("no promotion was refused")
		}
		if n := p[0].level(metric.PipesInUse); n != 1 {
			t.Errorf("%d pipes in use; want the one", n)
		}
	})
}

// TestLabKeepalive looks for the kernel's keepalive timer on both sides of a
// flow that has lasted.
func TestLabKeepalive(t *testing.T) {
	l := lab.New(t, lab.Simple(1, 1, 1))
	s := newShipped(t, settings{loops: 1}, l.Nodes[0])
	pod, host := l.Nodes[0].Pods[0], l.Hosts[0]
	s.enroll(pod)
	j := joinThrough(t, pod.Space, host.Space, host.At4(7000), false)
	count := func() int {
		return strings.Count(lab.Output(t, pod.Space, "ss", "-tnoH", "state", "established", "( sport = :7000 or dport = :7000 )"), "timer:(keepalive,")
	}
	if n := count(); n != 1 {
		t.Errorf("%d sockets have a keepalive timer at first; want the accepted one", n)
	}
	testkit.Eventually(t, 15*time.Second, "the dialled side's keepalive timer", func() bool { return count() == 2 })
	j.send(j.client, 10)
	j.take(j.server, 10)
}
