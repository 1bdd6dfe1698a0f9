package node_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/buf"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// TestLabBudgetSlowReaders has hundreds of servers that do not read: what the proxy
// holds for each is bounded, and the rest waits with the senders.
func TestLabBudgetSlowReaders(t *testing.T) {
	const many = 500
	withProxies(t, lab.Simple(1, 1, 1), settings{loops: 2, pipes: -1, shippedOnly: true}, func(t *testing.T, l *lab.Lab, p []*proxy) {
		pod, host := l.Nodes[0].Pods[0].Space, l.Hosts[0].Space
		ln, err := host.Listen(host.At4(7000), lab.Socket{RcvBuf: 4 << 10})
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var open []net.Conn
		keep := func(c net.Conn) {
			mu.Lock()
			defer mu.Unlock()
			open = append(open, c)
		}
		defer func() {
			ln.Close()
			for _, c := range open {
				(&joined{t: t}).reset(c.(*net.TCPConn))
			}
		}()
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				keep(c) // and never read
			}
		}()
		s := p[0].shipped
		before := s.rss()
		var wg sync.WaitGroup
		for range 25 {
			wg.Go(func() {
				for range many / 25 {
					ctx, cancel := context.WithTimeout(context.Background(), patience)
					c, err := pod.Dial(ctx, host.At4(7000), lab.Socket{SndBuf: 64 << 10})
					cancel()
					if err != nil {
						t.Error(err)
						return
					}
					keep(c)
					stuffUntilFull(t, c)
				}
			})
		}
		wg.Wait()
		held, grown := p[0].level(metric.HeldBytes), s.rss()-before
		t.Logf("%d flows: %d bytes held, RSS grew by %d", many, held, grown)
		if held == 0 || held > 2*buf.BlockBytes*many {
			t.Errorf("%d bytes are held for %d flows; want some, and at most two blocks each", held, many)
		}
		if limit := 2*buf.BlockBytes*many + idleGrowthBytes; grown > limit {
			t.Errorf("RSS grew by %d bytes; want at most %d", grown, limit)
		}
		if p[0].closed(flow.CloseEOF) > 0 {
			t.Error("a flow has ended")
		}
	})
}

// stuffUntilFull writes until nothing more is taken, and checks that the rest
// waits in the sender's own kernel queue.
func stuffUntilFull(t *testing.T, c *net.TCPConn) {
	chunk := make([]byte, 256<<10)
	for {
		if err := c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
			t.Error(err)
			return
		}
		if _, err := c.Write(chunk); err != nil {
			break
		}
	}
	raw, err := c.SyscallConn()
	if err != nil {
		t.Error(err)
		return
	}
	if err := raw.Control(func(n uintptr) {
		f := sys.NewFD(int(n))
		defer f.Take() // it stays the connection's
		if unsent, err := sys.UnsentBytes(f); err != nil || unsent == 0 {
			t.Errorf("%d bytes wait with the sender, %v; want some", unsent, err)
		}
	}); err != nil {
		t.Error(err)
	}
}
