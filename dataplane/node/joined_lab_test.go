package node_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// patience is for what happens within milliseconds on a machine with time.
const patience = 20 * time.Second

// joined is a client and a server that are connected through the proxy.
type joined struct {
	t              *testing.T
	client, server *net.TCPConn
}

// joinThrough connects from to a new listener at at. Both sides have tiny
// buffers if small is set.
func joinThrough(t *testing.T, from, to *lab.Space, at netip.AddrPort, small bool) *joined {
	t.Helper()
	how := lab.Socket{}
	if small {
		how = lab.Socket{RcvBuf: 4 << 10, SndBuf: 4 << 10}
	}
	ln, err := to.Listen(at, how)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	j := &joined{t: t}
	if j.client, err = from.Dial(ctx, at, how); err != nil {
		t.Fatal(err)
	}
	if err := ln.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if j.server, err = ln.AcceptTCP(); err != nil {
		j.client.Close()
		t.Fatal(err)
	}
	for _, c := range []*net.TCPConn{j.client, j.server} {
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { j.client.Close(); j.server.Close() })
	return j
}

// send writes n bytes to c; on any goroutine.
func (j *joined) send(c *net.TCPConn, n int) {
	j.t.Helper()
	if _, err := c.Write(make([]byte, n)); err != nil {
		j.t.Errorf("send: %v", err)
	}
}

// shut sends FIN; on any goroutine.
func (j *joined) shut(c *net.TCPConn) {
	j.t.Helper()
	if err := c.CloseWrite(); err != nil {
		j.t.Errorf("shut: %v", err)
	}
}

// take reads n bytes from c.
func (j *joined) take(c *net.TCPConn, n int) {
	j.t.Helper()
	if _, err := io.CopyN(io.Discard, c, int64(n)); err != nil {
		j.t.Fatalf("take %d bytes: %v", n, err)
	}
}

// wantEOF reads c to its end, which must be a FIN behind n bytes.
func (j *joined) wantEOF(c *net.TCPConn, n int64) {
	j.t.Helper()
	if got, err := io.Copy(io.Discard, c); err != nil || got != n {
		j.t.Errorf("read %d bytes and %v; want %d and FIN", got, err, n)
	}
}

// wantReset reads c to its end, which must be a reset.
func (j *joined) wantReset(c *net.TCPConn) {
	j.t.Helper()
	if got, err := io.Copy(io.Discard, c); !errors.Is(err, sys.ECONNRESET) {
		j.t.Errorf("read %d bytes and %v; want a reset", got, err)
	}
}

// reset closes c with a reset.
func (j *joined) reset(c *net.TCPConn) {
	j.t.Helper()
	if err := c.SetLinger(0); err != nil {
		j.t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		j.t.Fatal(err)
	}
}

// stuff writes to c until nothing has been taken for a while: everything on the
// way is full. It returns how many bytes were taken.
func (j *joined) stuff(c *net.TCPConn) (n int) {
	j.t.Helper()
	buf := make([]byte, 256<<10)
	for {
		if err := c.SetWriteDeadline(time.Now().Add(150 * time.Millisecond)); err != nil {
			j.t.Fatal(err)
		}
		k, err := c.Write(buf)
		n += k
		if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
			return n
		}
		if err != nil {
			j.t.Fatalf("stuff: %v", err)
		}
	}
}

// both ways of a captured pod, in both families.
type way struct {
	name     string
	from, to *lab.Space
	at       netip.AddrPort
}

// ways are out of and into the first pod of the lab.
func ways(l *lab.Lab, port uint16) []way {
	pod, host := l.Nodes[0].Pods[0].Space, l.Hosts[0].Space
	return []way{
		{"out4", pod, host, host.At4(port)},
		{"in4", host, pod, pod.At4(port)},
		{"out6", pod, host, host.At6(port)},
		{"in6", host, pod, pod.At6(port)},
	}
}

// tunnelled are between the first pods of two nodes.
func tunnelled(l *lab.Lab, port uint16) []way {
	from, to := l.Nodes[0].Pods[0].Space, l.Nodes[1].Pods[0].Space
	return []way{{"tunnel4", from, to, to.At4(port)}, {"tunnel6", from, to, to.At6(port)}}
}

// eventually waits until a counter has moved.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	testkit.Eventually(t, patience, what, cond)
}
