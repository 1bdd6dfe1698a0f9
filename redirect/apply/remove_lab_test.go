package apply_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/redirect"
	"github.com/sluice-mesh/sluice/redirect/apply"
)

// While flows live nothing is removed, and the error says how many; listeners of
// the proxy hold nobody up. When they have ended, or by force, it is.
func TestLabRemoveWithLiveFlows(t *testing.T) {
	for _, force := range []bool{false, true} {
		s := newScene(t)
		before := snapshot(t, s.pod)
		s.apply(t, redirect.Intent{})
		outbound := listen(t, s.pod, redirect.PortOutbound, proxySocket())
		inbound := listen(t, s.pod, redirect.PortInbound, proxySocket())
		var apps, proxies []*net.TCPConn
		for range 3 {
			apps = append(apps, dial(t, s.pod, s.peer.At4(80), lab.Socket{}))
			proxies = append(proxies, accept(t, outbound))
		}
		apps = append(apps, dial(t, s.peer, s.pod.At6(80), lab.Socket{}))
		proxies = append(proxies, accept(t, inbound))
		// One more waits in the listener's queue: it is the proxy's as well.
		apps = append(apps, dial(t, s.pod, s.peer.At6(80), lab.Socket{}))
		made := snapshot(t, s.pod)

		gone, err := apply.Remove(s.pod.Handle(), s.state, apply.RemoveOptions{})
		live, ok := errors.AsType[*apply.FlowsLiveError](err)
		if !errors.Is(err, apply.ErrFlowsLive) || !ok || live.Count != 5 || !strings.Contains(err.Error(), "5 sockets") {
			t.Errorf("got %v; want 5 live sockets", err)
		}
		if gone != (apply.Removed{}) {
			t.Errorf("removed %+v", gone)
		}
		unchanged(t, s.pod, made)
		if n, err := apply.Live(s.pod.Handle()); n != 5 || err != nil {
			t.Errorf("live: %d, %v; want 5", n, err)
		}
		talks(t, "a flow after the refusal", apps[0], proxies[0])

		if force {
			gone := s.remove(t, apply.RemoveOptions{Force: true})
			if gone.Reset != 5 || !gone.Table || gone.Rules != 4 || gone.Routes != 2 {
				t.Errorf("removed %+v; want 5 resets and all", gone)
			}
			for _, c := range apps {
				isReset(t, "the application's end", c)
			}
			for _, c := range proxies {
				isReset(t, "the proxy's end", c)
			}
		} else {
			for _, c := range append(apps, proxies...) {
				c.SetLinger(0)
				c.Close()
			}
			outbound.Close() // and with it what waits in its queue
			if gone := s.remove(t, apply.RemoveOptions{}); gone.Reset != 0 || !gone.Table {
				t.Errorf("removed %+v", gone)
			}
		}
		unchanged(t, s.pod, before)
	}
}

// Force also ends sockets that are left where the rules are gone already.
func TestLabForceWithoutTable(t *testing.T) {
	s := newScene(t)
	far := listen(t, s.peer, 80, lab.Socket{})
	c := dial(t, s.pod, s.peer.At4(80), lab.Socket{Mark: redirect.MarkProxy})
	accept(t, far)
	if _, err := apply.Remove(s.pod.Handle(), s.state, apply.RemoveOptions{}); !errors.Is(err, apply.ErrFlowsLive) {
		t.Errorf("got %v; want ErrFlowsLive", err)
	}
	if gone := s.remove(t, apply.RemoveOptions{Force: true}); gone != (apply.Removed{Reset: 1}) {
		t.Errorf("removed %+v", gone)
	}
	isReset(t, "the proxy's socket", c)
}

// The host's own namespace is never touched, not even to remove.
func TestLabHostIsRefused(t *testing.T) {
	s := newScene(t)
	own, err := netns.Current()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	before := hostState(t)
	_, applied := apply.Apply(own, redirect.Intent{}, s.state)
	_, captured := apply.Capture(own, redirect.Intent{})
	_, removed := apply.Remove(own, s.state, apply.RemoveOptions{Force: true})
	for what, err := range map[string]error{
		"prepare": apply.Prepare(own, redirect.Intent{}, s.state),
		"apply":   applied, "capture": captured, "remove": removed,
	} {
		if !errors.Is(err, apply.ErrHostNamespace) {
			t.Errorf("%s: %v; want ErrHostNamespace", what, err)
		}
	}
	if now := hostState(t); now != before {
		t.Errorf("the host was\n%s\nand is\n%s", before, now)
	}
}

// Where the link to a process's namespace can't be read, a socket tells.
func TestLabProcessIsTold(t *testing.T) {
	s := newScene(t)
	p := lab.Start(t, s.peer, lab.Program{Path: "sleep", Args: []string{"60"}})
	for _, tt := range []struct {
		ns   *lab.Space
		want bool
	}{{s.peer, true}, {s.pod, false}} {
		if got, err := apply.HoldsProcess(tt.ns.Handle(), p.PID); err != nil || got != tt.want {
			t.Errorf("a process of %s lives in %s: %v, %v", s.peer.Name, tt.ns.Name, got, err)
		}
	}
}

// A pod whose name is gone is reached by its handle as before.
func TestLabNamespaceWithoutName(t *testing.T) {
	s := newScene(t)
	s.apply(t, redirect.Intent{})
	before := snapshot(t, s.pod)
	lab.Output(t, s.pod, "umount", s.pod.Path)
	if _, err := netns.Open(s.pod.Path); err == nil {
		t.Error("the name is still there")
	}
	if before == "" {
		t.Fatal("nothing was applied")
	}
	if gone := s.remove(t, apply.RemoveOptions{}); !gone.Table || gone.Rules != 4 {
		t.Errorf("removed %+v", gone)
	}
}

// By force while the application keeps connecting: it comes to an end, and no
// packet of a captured connection gets out to the real peer, which would answer
// it with a reset.
func TestLabForceUnderLoad(t *testing.T) {
	s := newScene(t)
	far := listen(t, s.peer, 80, lab.Socket{})
	lab.Output(t, s.peer, "nft", "-f", write(t, `
table inet seen {
	counter resets { }
	chain out {
		type filter hook output priority 0; policy accept;
		tcp sport 80 tcp flags & rst == rst counter name resets
	}
}
`))
	s.apply(t, redirect.Intent{})
	outbound := listen(t, s.pod, redirect.PortOutbound, proxySocket())
	var proxy, app, server sync.WaitGroup
	server.Go(func() { // greets, and reads what it gets
		for {
			c, err := far.AcceptTCP()
			if err != nil {
				return
			}
			server.Go(func() { c.Write([]byte("hi")); io.Copy(io.Discard, c); c.Close() })
		}
	})
	proxy.Go(func() { // reads what it gets
		for {
			c, err := outbound.AcceptTCP()
			if err != nil {
				return
			}
			proxy.Go(func() { io.Copy(io.Discard, c); c.Close() })
		}
	})
	ctx, stop := context.WithTimeout(t.Context(), testkit.Wait)
	defer stop()
	var captured, failed atomic.Int64
	direct := make(chan *net.TCPConn, 4)
	for range cap(direct) {
		app.Go(func() {
			for ctx.Err() == nil {
				c, err := s.pod.Dial(ctx, s.peer.At4(80), lab.Socket{})
				if err != nil { // reset before it was accepted
					failed.Add(1)
					continue
				}
				// Write until it is reset, or greeted by the server itself.
				for err == nil {
					if _, err = c.Write(make([]byte, 1024)); err != nil {
						break
					}
					c.SetReadDeadline(time.Now().Add(time.Millisecond))
					if _, err = c.Read(make([]byte, 1)); err == nil {
						direct <- c
						return
					}
					if errors.Is(err, os.ErrDeadlineExceeded) {
						err = nil
					}
				}
				captured.Add(1)
				c.SetLinger(0)
				c.Close()
			}
		})
	}
	testkit.Eventually(t, testkit.Wait, "captured connections", func() bool {
		n, err := apply.Live(s.pod.Handle())
		return err == nil && n >= cap(direct)
	})
	if gone := s.remove(t, apply.RemoveOptions{Force: true}); gone.Reset < cap(direct) || !gone.Table {
		t.Errorf("removed %+v", gone)
	}
	var past []*net.TCPConn
	for range cap(direct) {
		past = append(past, testkit.Receive(t, testkit.Wait, "a connection past the removed rules", direct))
	}
	app.Wait()
	for _, c := range past {
		c.Close()
	}
	outbound.Close()
	proxy.Wait()
	far.Close()
	server.Wait()
	if captured.Load() < int64(cap(direct)) {
		t.Errorf("%d captured connections were reset, %d dials failed", captured.Load(), failed.Load())
	}
	if got := lab.Output(t, s.peer, "nft", "list", "counter", "inet", "seen", "resets"); !strings.Contains(got, "packets 0") {
		t.Errorf("the peer had to reset: %s", got)
	}
}
