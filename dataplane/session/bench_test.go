package session_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/bench/measure"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/route"
	"github.com/sluice-mesh/sluice/dataplane/session"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

// BenchmarkFlow is a flow from accept to close: connect, 100 bytes each way, the
// client closes. The system calls are the loop's. inward goes to the pod's own
// application in the client's name, outward from one of the pod's addresses. No
// rules capture: clients dial the listener, and the route says where they meant.
func BenchmarkFlow(b *testing.B) {
	for _, path := range []flow.Path{flow.Inbound, flow.Outbound} {
		b.Run(path.String(), func(b *testing.B) { benchFlow(b, path) })
	}
}

func benchFlow(b *testing.B, path flow.Path) {
	lab.Require(b)
	space := lab.New(b, lab.Simple(1, 1, 0)).Nodes[0].Pods[0].Space
	app := netip.AddrPortFrom(space.Addr4, 8080)
	ln, err := space.Listen(app, lab.Socket{})
	if err != nil {
		b.Fatal(err)
	}
	defer ln.Close()
	go echo(ln)

	l := onloop.Start(b, 0, loop.Config{PanicEnds: true})
	to := func(_ flow.Path, t flow.Tuple, _ flow.Addrs) flow.Verdict {
		return flow.Verdict{Kind: flow.Direct, To: app, Source: t.Client.Addr(), Application: path == flow.Inbound}
	}
	ns, err := netns.Open(space.Path)
	if err != nil {
		b.Fatal(err)
	}
	pod, err := session.Open(session.NewEnv(session.Config{Route: to}, []*loop.Loop{l}), flow.Pod{UID: "bench"}, ns, l)
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		pod.Drain(0, flow.CloseDrain)
		testkit.Within(b, testkit.Wait, "the pod ends", func() error { <-pod.Done(); return nil })
	}()

	port := uint16(route.PortOutbound)
	if path == flow.Inbound {
		port = route.PortInbound
	}
	proxy := netip.AddrPortFrom(space.Addr4, port)
	msg, back := make([]byte, 100), make([]byte, 100)
	op := func() {
		ctx, cancel := context.WithTimeout(b.Context(), testkit.Wait)
		defer cancel()
		c, err := space.Dial(ctx, proxy, lab.Socket{})
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(testkit.Wait)); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Write(msg); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, back); err != nil {
			b.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			b.Fatal(err)
		}
		if n, err := c.Read(back); n != 0 || !errors.Is(err, io.EOF) {
			b.Fatalf("behind the answer came %d bytes, %v; want the end", n, err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		op()
	}
	tid := 0
	onloop.Do(b, l, func() { tid = sys.Gettid() })
	measure.PerOp(b, tid, op)
}

// echo sends back what comes, until ln is closed.
func echo(ln *net.TCPListener) {
	for {
		c, err := ln.AcceptTCP()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			buf := make([]byte, 4<<10)
			for {
				n, err := c.Read(buf)
				if err != nil {
					return
				}
				if _, err := c.Write(buf[:n]); err != nil {
					return
				}
			}
		}()
	}
}
