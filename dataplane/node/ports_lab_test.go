package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// dialLimit is half a SYN retry: a dial that takes longer was not answered.
const dialLimit = 500 * time.Millisecond

// greet serves at at: it sends the client's address as it sees it, then sends
// back what comes.
func greet(t *testing.T, s *lab.Space, at netip.AddrPort) {
	t.Helper()
	ln, err := s.Listen(at, lab.Socket{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				peer := c.RemoteAddr().(*net.TCPAddr).AddrPort()
				if _, err := fmt.Fprintf(c, "%-40v", peer.Addr().Unmap()); err == nil {
					echoBytes(c)
				}
			})
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
}

// echoBytes sends back what comes until the client goes. It is no io.Copy, which
// would take a pipe for each.
func echoBytes(c net.Conn) {
	buf := make([]byte, 64)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		if _, err := c.Write(buf[:n]); err != nil {
			return
		}
	}
}

// dialGreeted connects, checks in time that the server sees who we are, and
// exchanges a byte.
func dialGreeted(from *lab.Space, how lab.Socket, to netip.AddrPort, limit time.Duration) (*net.TCPConn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	start := time.Now()
	c, err := from.Dial(ctx, to, how)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*net.TCPConn, error) {
		c.Close()
		return nil, err
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return fail(err)
	}
	var name [40]byte
	if _, err := io.ReadFull(c, name[:]); err != nil {
		return fail(fmt.Errorf("greeting: %w", err))
	}
	if took := time.Since(start); took > limit {
		return fail(fmt.Errorf("dial and greeting took %v", took))
	}
	local := c.LocalAddr().(*net.TCPAddr).AddrPort().Addr()
	if want := fmt.Sprintf("%-40v", local.Unmap()); string(name[:]) != want {
		return fail(fmt.Errorf("the server saw %q; want %q", name, want))
	}
	if _, err := c.Write([]byte("x")); err != nil {
		return fail(err)
	}
	if _, err := io.ReadFull(c, name[:1]); err != nil {
		return fail(fmt.Errorf("echo: %w", err))
	}
	return c, nil
}

// TestLabFixedSourcePorts uses ports that the kernel gives to nobody: within the
// ephemeral range they may be taken by any connection outward, with or without a
// proxy.
//
// It dials thousands of times from a few source ports, to
// backends on the same node and elsewhere, and resets at the end.
func TestLabFixedSourcePorts(t *testing.T) {
	withProxies(t, lab.Simple(1, 2, 1), settings{loops: 2, shippedOnly: true}, func(t *testing.T, l *lab.Lab, _ []*proxy) {
		p1, p2, host := l.Nodes[0].Pods[0].Space, l.Nodes[0].Pods[1].Space, l.Hosts[0].Space
		greet(t, p2, p2.At4(7000))
		greet(t, host, host.At4(7000))
		var wg sync.WaitGroup
		for port := range uint16(64) {
			wg.Go(func() {
				for i := range 5000 / 64 / 2 {
					to := []netip.AddrPort{p2.At4(7000), host.At4(7000)}
					var both []*net.TCPConn // the same source port to two destinations at once
					for _, at := range to {
						c, err := dialGreeted(p1, lab.Socket{Local: p1.At4(61000 + port), ReuseAddr: true}, at, patience)
						if err != nil {
							t.Errorf("port %d, dial %d to %v: %v", 61000+port, i, at, err)
							continue
						}
						both = append(both, c)
					}
					for _, c := range both {
						(&joined{t: t}).reset(c)
					}
				}
			})
		}
		wg.Wait()
	})
}

// TestLabClientsInRange has one client hold live connections on ports inside the
// chooser's range, and open as many new ones: the chooser passes over the ports
// that are taken. Meanwhile an application can listen on any port.
func TestLabClientsInRange(t *testing.T) {
	const many = 2000
	withProxies(t, lab.Simple(1, 1, 1), settings{loops: 2, shippedOnly: true}, func(t *testing.T, l *lab.Lab, p []*proxy) {
		pod, host := l.Nodes[0].Pods[0].Space, l.Hosts[0].Space
		greet(t, pod, pod.At4(7000))
		var open []*net.TCPConn
		defer func() {
			for _, c := range open {
				c.Close()
			}
		}()
		for i := range uint16(many) {
			// Odd ports: these flows get even source ports, from 16386 on. The
			// later clients have even ports and get odd ones, where that ended.
			port := 20385 + 2*i
			c, err := dialGreeted(host, lab.Socket{Local: host.At4(port)}, pod.At4(7000), dialLimit)
			if err != nil {
				t.Fatalf("client on port %d: %v", port, err)
			}
			open = append(open, c)
		}
		skipped := p[0].count(metric.SourcePortSkips)
		var wg sync.WaitGroup
		var mu sync.Mutex
		for range 8 {
			wg.Go(func() {
				for range many / 8 {
					c, err := dialGreeted(host, lab.Socket{}, pod.At4(7000), dialLimit)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					open = append(open, c)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if now := p[0].count(metric.SourcePortSkips); now < skipped+many/2 {
			t.Errorf("%d ports were passed over; the range was not met", now-skipped)
		}
		for port := uint16(16384); port < 16384+4000; port += 7 {
			ln, err := pod.Listen(pod.At4(port), lab.Socket{ReuseAddr: true})
			if err != nil {
				t.Fatalf("an application can't listen on port %d: %v", port, err)
			}
			ln.Close()
		}
	})
}

// TestLabSourcePortsUsedUp opens more flows than there are source ports: the
// last ones are reset, for that reason, and never go out in another name.
func TestLabSourcePortsUsedUp(t *testing.T) {
	withProxies(t, lab.Simple(1, 1, 1), settings{loops: 2, sourcePorts: "20000-20003,20010-20011"}, func(t *testing.T, l *lab.Lab, p []*proxy) {
		pod, host := l.Nodes[0].Pods[0].Space, l.Hosts[0].Space
		greet(t, pod, pod.At4(7000))
		const ports = 6
		for i := range ports {
			c, err := dialGreeted(host, lab.Socket{}, pod.At4(7000), dialLimit)
			if err != nil {
				t.Fatalf("flow %d of %d ports: %v", i+1, ports, err)
			}
			defer c.Close()
		}
		if p[0].count(metric.SourcePortSpill) == 0 {
			t.Error("the other parity and range were used without being counted")
		}
		c, err := dialGreeted(host, lab.Socket{}, pod.At4(7000), dialLimit)
		if !errors.Is(err, sys.ECONNRESET) {
			t.Errorf("a flow more than there are ports: %v, %v; want a reset", c, err)
		}
		eventually(t, "it to be counted", func() bool { return p[0].closed(flow.CloseSourcePorts) == 1 })
	})
}

// TestLabChurnTwoNodes has many clients connect, exchange and close by FIN,
// through two proxies on two nodes, for a while: nobody waits for a retry.
func TestLabChurnTwoNodes(t *testing.T) {
	l := lab.New(t, lab.Simple(2, 1, 0))
	for _, n := range l.Nodes {
		startShipped(t, settings{loops: 2, noLog: true}, n)
	}
	from, to := l.Nodes[0].Pods[0].Space, l.Nodes[1].Pods[0].Space
	greet(t, to, to.At4(7000))
	end := time.Now().Add(scaledChurn())
	var wg sync.WaitGroup
	counts := make([]int, 32)
	for i := range counts {
		wg.Go(func() {
			for time.Now().Before(end) {
				c, err := dialGreeted(from, lab.Socket{}, to.At4(7000), dialLimit)
				if err != nil {
					t.Errorf("after %d connections: %v", counts[i], err)
					return
				}
				counts[i]++
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	t.Logf("%d connections", sum)
	if sum < 1000 {
		t.Errorf("only %d connections: that is no churn", sum)
	}
}

func scaledChurn() time.Duration { return testkit.Scaled(10*time.Second, 30*time.Second) }
