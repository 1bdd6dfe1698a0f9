package rt_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/redirect/rt"
)

// A pair is one connection from p1 to p2.
type pair struct{ client, server *net.TCPConn }

// connect makes a connection with client as its nearer socket's options.
func connect(t *testing.T, from *lab.Space, ln *net.TCPListener, to netip.AddrPort, client lab.Socket) pair {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Wait)
	defer cancel()
	c, err := from.Dial(ctx, to, client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s, err := ln.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return pair{c, s}
}

// reset reports whether c ends with a reset.
func reset(t *testing.T, c *net.TCPConn) {
	t.Helper()
	testkit.Within(t, testkit.Wait, "the reset of a connection", func() error {
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.ECONNABORTED) {
			return fmt.Errorf("read: %v; want a reset", err)
		}
		return nil
	})
}

// The proxy's sockets are found by the low bits of their mark, in both families
// and on dual-stack sockets, and only those that can carry data. Reset ends
// exactly the ones that it is given, at both ends.
func TestLabSockets(t *testing.T) {
	testkit.NoLeaks(t)
	l := lab.New(t, lab.Simple(1, 2, 0))
	p1, p2 := l.Find("p1"), l.Find("p2")
	listen := func(s *lab.Space, how lab.Socket) *net.TCPListener {
		ln, err := s.Listen(netip.AddrPortFrom(netip.IPv6Unspecified(), 80), how)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		return ln
	}
	ln := listen(p2, lab.Socket{})
	listen(p1, lab.Socket{Mark: 0x539}) // listens: not counted

	plain := connect(t, p1, ln, p2.At4(80), lab.Socket{})
	v4 := connect(t, p1, ln, p2.At4(80), lab.Socket{Mark: 0x539})
	v6 := connect(t, p1, ln, p2.At6(80), lab.Socket{Mark: 0xab539}) // foreign bits above
	other := connect(t, p1, ln, p2.At4(80), lab.Socket{Mark: 0x538})

	find := func(s *lab.Space, mark, mask uint32, want ...*net.TCPConn) []rt.Socket {
		t.Helper()
		list, err := rt.Sockets(s.Handle(), mark, mask)
		if err != nil {
			t.Fatal(err)
		}
		var got, expect []string
		for _, s := range list {
			got = append(got, fmt.Sprint(s.Local, s.Remote))
		}
		for _, c := range want {
			local, remote := c.LocalAddr().(*net.TCPAddr).AddrPort(), c.RemoteAddr().(*net.TCPAddr).AddrPort()
			expect = append(expect, fmt.Sprint(unmap(local), unmap(remote)))
		}
		slices.Sort(got)
		slices.Sort(expect)
		if !slices.Equal(got, expect) {
			t.Errorf("mark %#x/%#x in %s: %v; want %v", mark, mask, s.Name, got, expect)
		}
		return list
	}
	find(p1, 0, 0, plain.client, v4.client, v6.client, other.client)
	find(p2, 0, 0, plain.server, v4.server, v6.server, other.server) // v4-mapped among them
	find(p2, 0x539, 0xfff)
	mine := find(p1, 0x539, 0xfff, v4.client, v6.client)

	n, err := rt.Reset(p1.Handle(), mine)
	if n != 2 || err != nil {
		t.Errorf("reset %d, %v; want 2", n, err)
	}
	for _, c := range []*net.TCPConn{v4.client, v4.server, v6.client, v6.server} {
		reset(t, c)
	}
	find(p1, 0x539, 0xfff)
	// Once more: they are gone, which is what was wanted.
	if n, err := rt.Reset(p1.Handle(), mine); n != 2 || err != nil {
		t.Errorf("reset again %d, %v; want 2", n, err)
	}
	// A dual-stack server's sockets, found as IPv4, are reset as well.
	if n, err := rt.Reset(p2.Handle(), find(p2, 0, 0, plain.server, other.server)); n != 2 || err != nil {
		t.Errorf("reset %d at the server, %v; want 2", n, err)
	}
	for _, c := range []*net.TCPConn{plain.client, plain.server, other.client, other.server} {
		reset(t, c)
	}
}

// What is over is not live: TIME_WAIT holds nobody up.
func TestLabSocketsLeaveOutTimeWait(t *testing.T) {
	testkit.NoLeaks(t)
	l := lab.New(t, lab.Simple(1, 2, 0))
	p1, p2 := l.Find("p1"), l.Find("p2")
	ln, err := p2.Listen(netip.AddrPortFrom(netip.IPv6Unspecified(), 80), lab.Socket{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	p := connect(t, p1, ln, p2.At4(80), lab.Socket{Mark: 0x539})
	count := func() int {
		list, err := rt.Sockets(p1.Handle(), 0x539, 0xfff)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if n := count(); n != 1 {
		t.Errorf("%d live sockets; want 1", n)
	}
	p.client.Close()
	if n := count(); n != 1 {
		t.Errorf("%d live sockets while the peer has not closed; want 1", n)
	}
	p.server.Close()
	testkit.Eventually(t, testkit.Wait, "the socket's TIME_WAIT", func() bool { return count() == 0 })
	if got := lab.Output(t, p1, "ss", "-Htn", "state", "time-wait"); got == "" {
		t.Error("no socket in TIME_WAIT: nothing was shown")
	}
}

func TestLabResetFeature(t *testing.T) {
	lab.Require(t)
	if err := rt.FeatureReset().Check(); err != nil {
		t.Error(err)
	}
}

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
