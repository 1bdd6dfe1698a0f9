package node_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// TestLabAgentDead kills the agent: the proxy goes on, for old flows and new
// ones, and keeps every pod when the agent is back.
func TestLabAgentDead(t *testing.T) {
	l := lab.New(t, lab.Simple(1, 2, 1))
	s := newShipped(t, settings{loops: 2, noLog: true}, l.Nodes[0])
	host := l.Hosts[0].Space
	for _, p := range l.Nodes[0].Pods {
		s.enroll(p)
	}
	out, in := l.Nodes[0].Pods[0].Space, l.Nodes[0].Pods[1].Space
	greet(t, host, host.At4(7000))
	greet(t, in, in.At4(7000))
	old := joinThrough(t, out, host, host.At4(7001), false)
	if _, err := s.agent.Stop(lab.SIGKILL, patience); err != nil {
		t.Fatal(err)
	}
	dialAll := func(span time.Duration) {
		end := time.Now().Add(span)
		var wg sync.WaitGroup
		for _, w := range []way{{from: out, at: host.At4(7000)}, {from: host, at: in.At4(7000)}, {from: out, at: in.At4(7000)}} {
			wg.Go(func() {
				for n := 0; time.Now().Before(end); n++ {
					c, err := dialGreeted(w.from, lab.Socket{}, w.at, patience)
					if err != nil {
						t.Errorf("dial %d to %v: %v", n, w.at, err)
						return
					}
					c.Close()
				}
			})
		}
		wg.Wait()
	}
	dialAll(testkit.Scaled(10*time.Second, 30*time.Second))
	s.startAgent()
	testkit.Try(t, patience, "the proxy to be ready again", func() error { return s.get(15021, "/healthz/ready", nil) })
	dialAll(500 * time.Millisecond)
	if n := s.figure("workload_manager_proxies_stopped_total"); n != 0 {
		t.Errorf("%v pods were stopped", n)
	}
	if n := s.figure("workload_manager_active_proxy_count"); n != 2 {
		t.Errorf("%v pods are served; want 2", n)
	}
	old.send(old.client, 1000)
	old.take(old.server, 1000)
}

// TestLabProxyDead kills the proxy: open flows end, new dials fail closed, and
// work again when a proxy is back, with no command given.
func TestLabProxyDead(t *testing.T) {
	l := lab.New(t, lab.Simple(1, 1, 1))
	s := newShipped(t, settings{loops: 2, noLog: true}, l.Nodes[0])
	pod, host := l.Nodes[0].Pods[0], l.Hosts[0].Space
	s.enroll(pod)
	greet(t, host, host.At4(7000))
	greet(t, pod.Space, pod.At4(7000))
	old := joinThrough(t, pod.Space, host, host.At4(7001), false)
	if _, err := s.sluice.Stop(lab.SIGKILL, patience); err != nil {
		t.Fatal(err)
	}
	if _, err := old.client.Read(make([]byte, 1)); err == nil {
		t.Error("an open flow has not ended")
	}
	for _, w := range []way{{from: pod.Space, at: host.At4(7000)}, {from: host, at: pod.At4(7000)}} {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		c, err := w.from.Dial(ctx, w.at, lab.Socket{})
		cancel()
		if err == nil {
			c.Close()
			t.Errorf("a dial to %v got past the missing proxy", w.at)
		} else if errors.Is(err, sys.ECONNREFUSED) {
			t.Errorf("a dial to %v was answered: %v", w.at, err)
		}
	}
	s.startSluice()
	for _, w := range []way{{from: pod.Space, at: host.At4(7000)}, {from: host, at: pod.At4(7000)}} {
		c, err := dialGreeted(w.from, lab.Socket{}, w.at, patience)
		if err != nil {
			t.Errorf("dial to %v with a new proxy: %v", w.at, err)
			continue
		}
		c.Close()
	}
}
