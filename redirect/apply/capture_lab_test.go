package apply_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/redirect"
	"github.com/sluice-mesh/sluice/redirect/apply"
)

// silence is how long a dial may stay without an answer to count as not
// answered: less than the kernel's first repetition of a SYN (1 s).
const silence = 400 * time.Millisecond

// unanswered fails t unless nobody answers.
func unanswered(t *testing.T, from *lab.Space, to netip.AddrPort, how lab.Socket) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), silence)
	defer cancel()
	c, err := from.Dial(ctx, to, how)
	if err == nil {
		c.Close()
	}
	if timeout := net.Error(nil); !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) && !(errors.As(err, &timeout) && timeout.Timeout()) {
		t.Errorf("%s to %v: %v; want silence", from.Name, to, err)
	}
}

// The rules lead each kind of connection to where it belongs, with its addresses
// as they were; without a listener of the proxy they lead nowhere.
func TestLabWhereConnectionsGo(t *testing.T) {
	s := newScene(t)
	app, far := listen(t, s.pod, 80, lab.Socket{}), listen(t, s.peer, 80, lab.Socket{})
	hbone := listen(t, s.pod, redirect.PortHBONE, proxySocket())
	s.apply(t, redirect.Intent{})

	both := func(a lab.Addrs, port uint16) []netip.AddrPort { return []netip.AddrPort{a.At4(port), a.At6(port)} }
	for _, to := range both(s.peer.Addrs, 80) {
		unanswered(t, s.pod, to, lab.Socket{})
	}
	for _, to := range both(s.pod.Addrs, 80) {
		unanswered(t, s.peer, to, lab.Socket{})
	}

	outbound := listen(t, s.pod, redirect.PortOutbound, proxySocket())
	inbound := listen(t, s.pod, redirect.PortInbound, proxySocket())
	// reaches fails t unless a dial ends at ln, which sees both addresses.
	reaches := func(what string, from *lab.Space, to netip.AddrPort, how lab.Socket, ln *net.TCPListener) {
		t.Helper()
		c := dial(t, from, to, how)
		a := accept(t, ln)
		if addrOf(a.LocalAddr()) != to || addrOf(a.RemoteAddr()) != addrOf(c.LocalAddr()) {
			t.Errorf("%s: dialled from %v to %v, seen as from %v to %v", what, c.LocalAddr(), to, a.RemoteAddr(), a.LocalAddr())
		}
		talks(t, what, c, a)
		talks(t, what, a, c)
	}
	mine := lab.Socket{Mark: redirect.MarkProxy}
	for _, to := range both(s.peer.Addrs, 80) {
		reaches("out", s.pod, to, lab.Socket{}, outbound)
		reaches("out, foreign mark bits", s.pod, to, lab.Socket{Mark: 0xab000}, outbound)
		reaches("the proxy's own", s.pod, to, mine, far)
	}
	for _, to := range both(s.pod.Addrs, 80) {
		reaches("in", s.peer, to, lab.Socket{}, inbound)
		reaches("to itself", s.pod, to, lab.Socket{}, app)
	}
	for _, to := range both(s.pod.Addrs, redirect.PortHBONE) {
		reaches("HBONE", s.peer, to, lab.Socket{}, hbone)
	}
	for _, to := range []string{"127.0.0.1:80", "127.0.0.9:80", "[::1]:80"} {
		reaches("loopback", s.pod, netip.MustParseAddrPort(to), lab.Socket{}, app)
	}
	// The proxy to the application, in the client's name.
	for i, to := range both(s.pod.Addrs, 80) {
		from := both(s.peer.Addrs, 20000)[i]
		reaches("spoofed", s.pod, to, lab.Socket{Mark: redirect.MarkProxy, Transparent: true, ReuseAddr: true, Local: from}, app)
	}
}

// A mark that lies above ours leaves with the packet as it came.
func TestLabForeignMarkBitsAreKept(t *testing.T) {
	s := newScene(t)
	far := listen(t, s.peer, 80, lab.Socket{})
	listen(t, s.pod, redirect.PortOutbound, proxySocket())
	s.apply(t, redirect.Intent{})
	lab.Output(t, s.pod, "nft", "-f", write(t, `
table inet seen {
	counter captured { }
	counter bypassed { }
	chain in {
		type filter hook input priority 0; policy accept;
		iifname "lo" meta mark 0xab111 counter name captured
	}
	chain post {
		type filter hook postrouting priority 0; policy accept;
		oifname "eth0" meta mark 0xab539 counter name bypassed
	}
}
`))
	dial(t, s.pod, s.peer.At4(80), lab.Socket{Mark: 0xab000})
	dial(t, s.pod, s.peer.At4(80), lab.Socket{Mark: 0xab539})
	accept(t, far)
	for _, name := range []string{"captured", "bypassed"} {
		got := lab.Output(t, s.pod, "nft", "list", "counter", "inet", "seen", name)
		if strings.Contains(got, "packets 0") || !strings.Contains(got, "packets") {
			t.Errorf("counter %s: %s", name, got)
		}
	}
}

// Connections that are older than the rules end at once, at both ends; those that
// the rules do not concern go on. Nothing is reset a second time.
func TestLabOldConnectionsAreReset(t *testing.T) {
	s := newScene(t)
	app, far := listen(t, s.pod, 80, lab.Socket{}), listen(t, s.peer, 80, lab.Socket{})
	// The node's probes come from an address of their own; here the peer has it.
	probe := netip.MustParseAddr("192.0.2.99")
	lab.Output(t, s.peer, "ip", "addr", "add", "192.0.2.99/32", "dev", "lo")
	lab.Output(t, s.peer, "sysctl", "-qw", "net.ipv4.ip_nonlocal_bind=1")

	type conn struct {
		what         string
		near, remote *net.TCPConn
	}
	open := func(what string, from *lab.Space, to netip.AddrPort, how lab.Socket, ln *net.TCPListener) conn {
		t.Helper()
		c := dial(t, from, to, how)
		return conn{what, c, accept(t, ln)}
	}
	old := []conn{
		open("out IPv4", s.pod, s.peer.At4(80), lab.Socket{}, far),
		open("out IPv6", s.pod, s.peer.At6(80), lab.Socket{}, far),
		open("in IPv4, on a dual-stack socket", s.peer, s.pod.At4(80), lab.Socket{}, app),
		open("in IPv6", s.peer, s.pod.At6(80), lab.Socket{}, app),
		open("in to the second address", s.peer, netip.AddrPortFrom(s.pod.Second4, 80), lab.Socket{}, app),
	}
	half := open("half-closed", s.pod, s.peer.At4(80), lab.Socket{}, far)
	half.near.CloseWrite()
	old = append(old, half)
	spared := []conn{
		open("to itself", s.pod, s.pod.At4(80), lab.Socket{}, app),
		open("to itself, IPv6", s.pod, s.pod.At6(80), lab.Socket{}, app),
		open("loopback", s.pod, netip.MustParseAddrPort("127.0.0.1:80"), lab.Socket{}, app),
		open("loopback, IPv6", s.pod, netip.MustParseAddrPort("[::1]:80"), lab.Socket{}, app),
		open("the proxy's own", s.pod, s.peer.At4(80), lab.Socket{Mark: redirect.MarkProxy}, far),
	}

	res := s.apply(t, redirect.Intent{Probe4: probe})
	if res != (apply.Result{Reset: len(old)}) {
		t.Errorf("result %+v; want %d reset", res, len(old))
	}
	for _, c := range old {
		isReset(t, c.what+", near end", c.near)
		if c.what != half.what { // its far end has read the end of the stream before
			isReset(t, c.what+", far end", c.remote)
		}
	}
	for _, c := range spared {
		talks(t, c.what, c.near, c.remote)
		talks(t, c.what, c.remote, c.near)
	}

	// A captured connection is not old.
	outbound := listen(t, s.pod, redirect.PortOutbound, proxySocket())
	c := dial(t, s.pod, s.peer.At4(80), lab.Socket{})
	a := accept(t, outbound)
	if res := s.apply(t, redirect.Intent{Probe4: probe}); res != (apply.Result{Already: true}) {
		t.Errorf("second time: %+v", res)
	}
	talks(t, "a captured connection", c, a)
	talks(t, "a captured connection", a, c)
}
