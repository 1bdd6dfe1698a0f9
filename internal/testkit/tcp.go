package testkit

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// TCPOptions say how TCPPair makes a connection. The zero value makes an
// ordinary one.
type TCPOptions struct {
	FarReadBuffer int // bytes; 0 leaves it to the kernel
	NearBuffers   int // bytes of each buffer of near; 0 leaves them to the kernel
}

// TCPPair makes a TCP connection over loopback. near is for the code under test:
// non-blocking, without delay and with urgent data in its place, as the proxy's
// sockets are. far is for the test, with a deadline of
// Wait. Both ends run a congestion control without pacing, whatever the host's
// is. What is left of both is closed when the test ends.
func TCPPair(t testing.TB, opts TCPOptions) (far *net.TCPConn, near *sys.FD) {
	t.Helper()
	l := ListenTCP(t, opts)
	defer l.Close()
	near = new(sys.FD)
	t.Cleanup(func() { near.Close() })
	if err := sys.Socket(near, sys.IPv4); err != nil {
		t.Fatalf("testkit: socket: %v", err)
	}
	tune(t, near, opts.NearBuffers, opts.NearBuffers)
	if err := errors.Join(sys.SetNoDelay(near), sys.SetUrgentInline(near)); err != nil {
		t.Fatalf("testkit: options: %v", err)
	}
	to := l.Addr().(*net.TCPAddr).AddrPort()
	if err := sys.Connect(near, to); err != nil && !errors.Is(err, sys.EINPROGRESS) {
		t.Fatalf("testkit: connect to %v: %v", to, err)
	}
	return AcceptTCP(t, l), near
}

// ListenTCP listens on loopback, with the options for the far side.
func ListenTCP(t testing.TB, opts TCPOptions) *net.TCPListener {
	t.Helper()
	var f sys.FD
	if err := sys.Socket(&f, sys.IPv4); err != nil {
		t.Fatalf("testkit: socket: %v", err)
	}
	tune(t, &f, opts.FarReadBuffer, 0)
	if err := sys.Bind(&f, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)); err != nil {
		t.Fatalf("testkit: bind: %v", err)
	}
	if err := sys.Listen(&f, 128); err != nil {
		t.Fatalf("testkit: listen: %v", err)
	}
	file := os.NewFile(uintptr(f.Take()), "listener")
	defer file.Close()
	l, err := net.FileListener(file) // a copy
	if err != nil {
		t.Fatalf("testkit: listen: %v", err)
	}
	return l.(*net.TCPListener)
}

// AcceptTCP takes one connection, with a deadline of Wait, and closes it when the
// test ends.
func AcceptTCP(t testing.TB, l *net.TCPListener) *net.TCPConn {
	t.Helper()
	if err := l.SetDeadline(time.Now().Add(Wait)); err != nil {
		t.Fatalf("testkit: accept: %v", err)
	}
	c, err := l.AcceptTCP()
	if err != nil {
		t.Fatalf("testkit: accept: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(Wait)); err != nil {
		t.Fatalf("testkit: accept: %v", err)
	}
	return c
}

// tune sets the buffers that are not 0, and the congestion control.
func tune(t testing.TB, f *sys.FD, read, write int) {
	t.Helper()
	if err := sys.SetBuffers(f, read, write); err != nil {
		t.Errorf("testkit: buffers: %v", err)
	}
	// Where cubic may not be used the default is used.
	_ = sys.SetCongestion(f, "cubic")
}

// ResetTCP closes c with a reset.
func ResetTCP(t testing.TB, c *net.TCPConn) {
	t.Helper()
	if err := c.SetLinger(0); err != nil {
		t.Errorf("testkit: reset: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("testkit: reset: %v", err)
	}
}
