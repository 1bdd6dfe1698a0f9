package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// ears listen on a port of every namespace, on all addresses of both families:
// a connection that ends in the wrong place is heard.
type ears struct {
	t         *testing.T
	listeners []*net.TCPListener
	accepting sync.WaitGroup
	got       chan arrival
}

type arrival struct {
	by   *lab.Space
	conn *net.TCPConn
}

// listen opens ears until t ends.
func (v variant) listen(t *testing.T, port uint16) *ears {
	t.Helper()
	e := &ears{t: t, got: make(chan arrival, 1000)}
	t.Cleanup(e.close)
	for _, s := range []*lab.Space{v.node, v.pod, v.peer, v.host} {
		ln, err := s.Listen(netip.AddrPortFrom(netip.IPv6Unspecified(), port), v.app())
		if err != nil {
			t.Fatal(err)
		}
		e.listeners = append(e.listeners, ln)
		e.accepting.Go(func() {
			for {
				c, err := ln.AcceptTCP()
				if err != nil {
					return
				}
				e.got <- arrival{s, c}
			}
		})
	}
	return e
}

// close fails t for connections that nobody expected.
func (e *ears) close() {
	for _, ln := range e.listeners {
		ln.Close()
	}
	e.accepting.Wait()
	close(e.got)
	for a := range e.got {
		a.conn.Close()
		e.t.Errorf("%s was connected to by %v, which nobody expected", a.by.Name, a.conn.RemoteAddr())
	}
}

// hear waits for the next connection, which must be to the namespace by.
func (e *ears) hear(t *testing.T, by *lab.Space) *net.TCPConn {
	t.Helper()
	a := testkit.Receive(t, patience, "a connection to "+by.Name, e.got)
	t.Cleanup(func() { a.conn.Close() })
	if a.by != by {
		t.Fatalf("%s was connected to by %v; want %s", a.by.Name, a.conn.RemoteAddr(), by.Name)
	}
	limit(t, a.conn)
	return a.conn
}

// limit bounds how long a test waits for c.
func limit(t *testing.T, c *net.TCPConn) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
}

// connect dials and takes the connection where it must arrive. It fails t when a
// SYN had to be sent twice.
func (e *ears) connect(t *testing.T, from *lab.Space, how lab.Socket, to netip.AddrPort, by *lab.Space) *joined {
	t.Helper()
	j := &joined{t: t, client: dialIn(t, from, how, to)}
	j.server = e.hear(t, by)
	return j
}

// dialIn connects from inside a namespace, at once.
func dialIn(t *testing.T, from *lab.Space, how lab.Socket, to netip.AddrPort) *net.TCPConn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	start := time.Now()
	c, err := from.Dial(ctx, to, how)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	limit(t, c)
	if took := time.Since(start); took > noRetry {
		t.Errorf("%s to %v was connected after %v: a SYN was sent again", from.Name, to, took)
	}
	return c
}

// crossing connects out of the pod, and into it.
func (v variant) crossing(t *testing.T, e *ears, small bool) []*joined {
	t.Helper()
	how := v.app()
	if small {
		how.RcvBuf, how.SndBuf = 8<<10, 8<<10
	}
	return []*joined{
		e.connect(t, v.pod, how, v.at(v.host, appPort), v.host),
		e.connect(t, v.host, how, v.at(v.pod, appPort), v.pod),
	}
}

// A proxied is a connection of which one side is the pod's application.
type proxied struct {
	*joined
	app, other *net.TCPConn
}

// applications are the connections of crossing.
func (v variant) applications(t *testing.T, e *ears) []proxied {
	t.Helper()
	c := v.crossing(t, e, false)
	return []proxied{{c[0], c[0].client, c[0].server}, {c[1], c[1].server, c[1].client}}
}

// row matches what the application's half of the flow sends.
func (p proxied) row() string { return rowOf(addrOf(p.app.LocalAddr()), addrOf(p.app.RemoteAddr())) }

// resetOf dials where the client must be reset, without a SYN being sent twice.
// The proxy lets it in before it knows, so the reset may come later than the
// connection.
func (s *scene) resetOf(t *testing.T, from *lab.Space, how lab.Socket, to netip.AddrPort) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	start := time.Now()
	c, err := from.Dial(ctx, to, how)
	if err == nil {
		defer c.Close()
		limit(t, c)
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, sys.ECONNRESET) && !errors.Is(err, sys.ECONNREFUSED) {
		return fmt.Errorf("%s to %v: %v; want a reset", from.Name, to, err)
	}
	if took := time.Since(start); took > noRetry {
		return fmt.Errorf("%s to %v was reset after %v: a SYN was sent again", from.Name, to, took)
	}
	return nil
}

// talk sends something each way, then the ends, and reads what comes.
func (j *joined) talk() {
	j.t.Helper()
	const up, down = "from the client", "from the server"
	for _, way := range []struct {
		from, to *net.TCPConn
		text     string
	}{{j.client, j.server, up}, {j.server, j.client, down}} {
		if _, err := io.WriteString(way.from, way.text); err != nil {
			j.t.Fatalf("write %q: %v", way.text, err)
		}
		got := make([]byte, len(way.text))
		if _, err := io.ReadFull(way.to, got); err != nil || string(got) != way.text {
			j.t.Fatalf("read %q, %v; want %q", got, err, way.text)
		}
	}
}

// finish ends both ways, the client first.
func (j *joined) finish() {
	j.t.Helper()
	j.shut(j.client)
	j.wantEOF(j.server, 0)
	j.shut(j.server)
	j.wantEOF(j.client, 0)
	j.client.Close()
	j.server.Close()
}

// An attempt is a dial that must come to nothing.
type attempt struct {
	from *lab.Space
	how  lab.Socket
	to   netip.AddrPort
}

// unanswered fails t unless nobody answers any of the attempts, which are made
// at once.
func unanswered(t *testing.T, attempts ...attempt) {
	t.Helper()
	var wg sync.WaitGroup
	for _, a := range attempts {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), silence)
			defer cancel()
			c, err := a.from.Dial(ctx, a.to, a.how)
			if err == nil {
				c.Close()
			}
			if e, ok := errors.AsType[net.Error](err); !(ok && e.Timeout()) && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s to %v: %v; want silence", a.from.Name, a.to, err)
			}
		})
	}
	wg.Wait()
}

// addrOf is an address of a connection.
func addrOf(a net.Addr) netip.AddrPort {
	ap := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// spoofRange reports a port that the chooser draws from by default.
func spoofRange(port uint16) bool { return port >= 10240 && port <= 32767 }

// limitListener bounds how long a test waits for a connection.
func limitListener(t *testing.T, ln *net.TCPListener) {
	t.Helper()
	if err := ln.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
}
