package sys_test

import (
	"io"
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// waitFor waits until f reports one of bits.
func waitFor(t *testing.T, f *sys.FD, bits sys.Bits) sys.Bits {
	t.Helper()
	var p sys.Poller
	if err := p.Open(); err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if err := p.Add(f, bits, 1); err != nil {
		t.Fatal(err)
	}
	var events [1]sys.Event
	for { // a signal ends a wait early
		n, err := p.Wait(events[:], testkit.Wait)
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			return events[0].Bits()
		}
	}
}

// listen makes a listener of ours on loopback.
func listen(t *testing.T, at string) (*sys.FD, netip.AddrPort) {
	t.Helper()
	ap := netip.MustParseAddrPort(at)
	f := new(sys.FD)
	t.Cleanup(func() { f.Close() })
	for _, err := range []error{
		sys.Socket(f, sys.FamilyOf(ap.Addr())), sys.SetReuseAddr(f), sys.Bind(f, ap), sys.Listen(f, 16),
	} {
		if err != nil {
			t.Fatalf("listen on %v: %v", ap, err)
		}
	}
	local, err := sys.LocalAddr(f)
	if err != nil || local.Addr() != ap.Addr() || local.Port() == 0 {
		t.Fatalf("listener is at %v, %v; want %v with a port", local, err, ap.Addr())
	}
	return f, local
}

func TestAccept(t *testing.T) {
	testkit.NoLeaks(t)
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, addr := listen(t, at)
		var none sys.FD
		if peer, err := sys.Accept(l, &none); err != sys.EAGAIN || none.Valid() || peer.IsValid() {
			t.Errorf("%v: nobody there: %v, %v; want EAGAIN", addr, peer, err)
		}
		c, err := net.Dial("tcp", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		waitFor(t, l, sys.Readable)
		var f sys.FD
		peer, err := sys.Accept(l, &f)
		if want := c.LocalAddr().(*net.TCPAddr).AddrPort(); err != nil || peer != want {
			t.Errorf("%v: accepted from %v, %v; want %v", addr, peer, err, want)
		}
		if local, err := sys.LocalAddr(&f); err != nil || local != addr {
			t.Errorf("%v: accepted at %v, %v", addr, local, err)
		}
		status, err1 := unix.FcntlInt(uintptr(f.Raw()), unix.F_GETFL, 0)
		flags, err2 := unix.FcntlInt(uintptr(f.Raw()), unix.F_GETFD, 0)
		if err1 != nil || err2 != nil || status&unix.O_NONBLOCK == 0 || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("%v: accepted with flags %#x, %#x; want non-blocking and close-on-exec", addr, status, flags)
		}
		// No capture, no NAT: connection tracking has nothing to say. Without
		// netfilter's module the option itself is unknown.
		if dst, err := sys.OriginalDst(&f, sys.FamilyOf(addr.Addr())); err != sys.ENOENT && err != sys.ENOPROTOOPT || dst.IsValid() {
			t.Errorf("%v: original destination %v, %v; want ENOENT or ENOPROTOOPT", addr, dst, err)
		}
		f.Close()
		c.Close()
	}
}

// A dual-stack listener reports IPv4 clients as IPv4.
func TestAcceptIPv4OnIPv6(t *testing.T) {
	testkit.NoLeaks(t)
	var l, f sys.FD
	defer l.Close()
	defer f.Close()
	for _, err := range []error{
		sys.Socket(&l, sys.IPv6), sys.SetV6Only(&l, false), sys.BindAny(&l, sys.IPv6, 0), sys.Listen(&l, 16),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	any, err := sys.LocalAddr(&l)
	if err != nil {
		t.Fatal(err)
	}
	to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), any.Port())
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	waitFor(t, &l, sys.Readable)
	peer, err := sys.Accept(&l, &f)
	local, lerr := sys.LocalAddr(&f)
	if want := c.LocalAddr().(*net.TCPAddr).AddrPort(); err != nil || lerr != nil || peer != want || local != to {
		t.Errorf("accepted from %v (%v) at %v (%v); want %v at %v", peer, err, local, lerr, want, to)
	}
}

func TestConnectRefused(t *testing.T) {
	testkit.NoLeaks(t)
	l, addr := listen(t, "127.0.0.1:0")
	l.Close() // so nobody listens there
	var f sys.FD
	defer f.Close()
	if err := sys.Socket(&f, sys.IPv4); err != nil {
		t.Fatal(err)
	}
	if err := sys.Connect(&f, addr); err != sys.EINPROGRESS {
		t.Fatalf("connect: %v; want EINPROGRESS", err)
	}
	if bits := waitFor(t, &f, sys.Stream); bits&sys.Failed == 0 {
		t.Errorf("refused connect reports %#x; want Failed", bits)
	}
	if err := sys.SocketError(&f); err != sys.ECONNREFUSED {
		t.Errorf("pending error: %v; want ECONNREFUSED", err)
	}
	if err := sys.SocketError(&f); err != nil {
		t.Errorf("pending error after it was taken: %v", err)
	}
}

// A half-close keeps the other direction; what comes after a reset is an error.
func TestShutdownAndReset(t *testing.T) {
	testkit.NoLeaks(t)
	far, near := testkit.TCPPair(t, testkit.TCPOptions{})
	if n, err := sys.Send(near, []byte("last")); n != 4 || err != nil {
		t.Fatalf("send: %d, %v", n, err)
	}
	if err := sys.ShutdownWrite(near); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(far); string(got) != "last" || err != nil {
		t.Errorf("far read %q, %v; want all and EOF", got, err)
	}
	if _, err := sys.Send(near, []byte("x")); err != sys.EPIPE {
		t.Errorf("send behind our FIN: %v; want EPIPE", err)
	}
	if _, err := far.Write([]byte("reply")); err != nil {
		t.Fatal(err)
	}
	waitFor(t, near, sys.Readable)
	buf := make([]byte, 16)
	if n, err := sys.Read(near, buf); string(buf[:n]) != "reply" || err != nil {
		t.Errorf("read %q, %v", buf[:n], err)
	}
	if _, err := sys.Read(near, buf); err != sys.EAGAIN {
		t.Errorf("read of nothing: %v; want EAGAIN", err)
	}
	sys.Reset(near)
	if near.Valid() {
		t.Error("a reset leaves the descriptor open")
	}
	sys.Reset(near)                                              // an empty one: nothing happens
	if _, err := far.Write(buf); sys.ErrnoOf(err) != sys.EPIPE { // a reset behind a FIN
		t.Errorf("far wrote: %v; want EPIPE", err)
	}
	far, near = testkit.TCPPair(t, testkit.TCPOptions{})
	sys.Reset(near)
	if _, err := far.Read(buf); sys.ErrnoOf(err) != sys.ECONNRESET {
		t.Errorf("far read %v; want ECONNRESET", err)
	}
}

func TestReadSeesFINAndReset(t *testing.T) {
	testkit.NoLeaks(t)
	buf := make([]byte, 16)
	far, near := testkit.TCPPair(t, testkit.TCPOptions{})
	far.CloseWrite()
	waitFor(t, near, sys.PeerShut)
	if n, err := sys.Read(near, buf); n != 0 || err != nil {
		t.Errorf("read behind a FIN: %d, %v; want 0", n, err)
	}
	far, near = testkit.TCPPair(t, testkit.TCPOptions{})
	far.Write([]byte("last words"))
	testkit.ResetTCP(t, far)
	waitFor(t, near, sys.Failed)
	if n, err := sys.Read(near, buf); string(buf[:n]) != "last words" || err != nil {
		t.Errorf("read of what came before a reset: %q, %v", buf[:n], err)
	}
	if _, err := sys.Read(near, buf); err != sys.ECONNRESET {
		t.Errorf("read behind a reset: %v; want ECONNRESET", err)
	}
}

func TestOptionsAreSet(t *testing.T) {
	testkit.NoLeaks(t)
	var f sys.FD
	defer f.Close()
	if err := sys.Socket(&f, sys.IPv6); err != nil {
		t.Fatal(err)
	}
	keep := sys.Keepalive{Idle: 180e9, Interval: 60e9, Count: 9}
	for _, err := range []error{
		sys.SetReuseAddr(&f), sys.SetReusePort(&f), sys.SetV6Only(&f, true), sys.SetNoDelay(&f), sys.SetBindNoPort(&f),
		sys.SetKeepalive(&f, keep), sys.SetUserTimeout(&f, 1500e6), sys.SetCongestion(&f, "reno"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name       string
		level, opt int
		want       int
	}{
		{"SO_REUSEADDR", unix.SOL_SOCKET, unix.SO_REUSEADDR, 1},
		{"SO_REUSEPORT", unix.SOL_SOCKET, unix.SO_REUSEPORT, 1},
		{"IPV6_V6ONLY", unix.SOL_IPV6, unix.IPV6_V6ONLY, 1},
		{"TCP_NODELAY", unix.SOL_TCP, unix.TCP_NODELAY, 1},
		{"IP_BIND_ADDRESS_NO_PORT", unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1},
		{"SO_KEEPALIVE", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{"TCP_KEEPIDLE", unix.SOL_TCP, unix.TCP_KEEPIDLE, 180},
		{"TCP_KEEPINTVL", unix.SOL_TCP, unix.TCP_KEEPINTVL, 60},
		{"TCP_KEEPCNT", unix.SOL_TCP, unix.TCP_KEEPCNT, 9},
		{"TCP_USER_TIMEOUT", unix.SOL_TCP, unix.TCP_USER_TIMEOUT, 1500},
	} {
		if got, err := unix.GetsockoptInt(f.Raw(), tt.level, tt.opt); err != nil || got != tt.want {
			t.Errorf("%s is %d, %v; want %d", tt.name, got, err, tt.want)
		}
	}
	if name, err := sys.Congestion(&f); err != nil || name != "reno" {
		t.Errorf("congestion control is %q, %v; want reno", name, err)
	}
	if err := sys.SetCongestion(&f, "none-such"); err != sys.ENOENT {
		t.Errorf("unknown congestion control: %v; want ENOENT", err)
	}
	if name, err := sys.UnpacedCongestion(); err != nil || name != "cubic" && name != "reno" {
		t.Errorf("congestion control without pacing: %q, %v", name, err)
	}
}

func TestUnsentBytes(t *testing.T) {
	testkit.NoLeaks(t)
	far, near := testkit.TCPPair(t, testkit.TCPOptions{FarReadBuffer: 4096})
	sent := 0
	for {
		n, err := sys.Send(near, make([]byte, 64<<10))
		if err == sys.EAGAIN {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		sent += n
	}
	if n, err := sys.UnsentBytes(near); err != nil || n == 0 || n > sent {
		t.Errorf("%d of %d bytes are not acknowledged, %v; want most of them", n, sent, err)
	}
	near.Close()
	io.Copy(io.Discard, far)
}
