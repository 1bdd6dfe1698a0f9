package lab_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// A forged reset ends a connection when it has the number that is expected, and
// is ignored when it has not (RFC 5961): the segment, its checksum and the
// numbers are right.
func TestLabForgedReset(t *testing.T) {
	testkit.NoLeaks(t)
	l := lab.New(t, lab.Simple(1, 1, 1))
	pod, host := l.Find("p1"), l.Find("h1")
	for _, at := range []netip.AddrPort{pod.At4(80), pod.At6(80)} {
		client, server := connect(t, host, pod, at)
		send, _, err := lab.Sequences(client)
		if err != nil {
			t.Fatal(err)
		}
		_, receive, err := lab.Sequences(server)
		if err != nil {
			t.Fatal(err)
		}
		if send != receive {
			t.Errorf("%v: the client sends byte %d next; the server expects %d", at, send, receive)
		}
		reset := lab.Segment{From: addrPort(client.LocalAddr()), To: at, Seq: receive + 100, Flags: lab.RST}
		if err := host.Forge(reset); err != nil {
			t.Fatal(err)
		}
		// What comes behind it shows that it had arrived and was ignored.
		if _, err := client.Write([]byte("12")); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Read(make([]byte, 2)); err != nil {
			t.Errorf("%v: behind a reset with a wrong number: %v", at, err)
		}
		reset.Seq = receive + 2
		if err := host.Forge(reset); err != nil {
			t.Fatal(err)
		}
		if _, err := server.Read(make([]byte, 1)); !errors.Is(err, sys.ECONNRESET) {
			t.Errorf("%v: behind a reset with the right number: %v", at, err)
		}
	}
}

// connect makes a connection between two namespaces.
func connect(t *testing.T, from, to *lab.Space, at netip.AddrPort) (client, server *net.TCPConn) {
	t.Helper()
	ln, err := to.Listen(at, lab.Socket{})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Wait)
	defer cancel()
	if client, err = from.Dial(ctx, at, lab.Socket{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client, accept(t, ln)
}

func accept(t *testing.T, ln *net.TCPListener) *net.TCPConn {
	t.Helper()
	if err := ln.SetDeadline(time.Now().Add(testkit.Wait)); err != nil {
		t.Fatal(err)
	}
	c, err := ln.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(testkit.Wait)); err != nil {
		t.Fatal(err)
	}
	return c
}

func addrPort(a net.Addr) netip.AddrPort { return a.(*net.TCPAddr).AddrPort() }
