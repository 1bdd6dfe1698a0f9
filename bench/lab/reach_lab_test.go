package lab_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// serve answers each connection on the port with "NAME saw SOURCE" until the test
// ends.
func serve(t *testing.T, s *lab.Space, port uint16) {
	t.Helper()
	any := netip.IPv6Unspecified()
	if !s.Addr6.IsValid() {
		any = netip.IPv4Unspecified()
	}
	ln, err := s.Listen(netip.AddrPortFrom(any, port), lab.Socket{})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			from := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
			fmt.Fprintf(c, "%s saw %v", s.Name, from)
			c.Close()
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
}

// ask connects and returns what the server says.
func ask(t *testing.T, from *lab.Space, to netip.AddrPort, how lab.Socket) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Wait)
	defer cancel()
	c, err := from.Dial(ctx, to, how)
	if err != nil {
		return "", err
	}
	defer c.Close()
	text, err := io.ReadAll(c)
	return string(text), err
}

func TestLabEverybodyReachesEverybody(t *testing.T) {
	testkit.NoLeaks(t)
	topo := lab.Simple(2, 2, 1)
	topo.Nodes[1].Pods[1].NoIPv6 = true // p4
	l := lab.New(t, topo)
	for _, s := range l.Spaces() {
		serve(t, s, 80)
	}
	asked := 0
	for _, from := range l.Spaces() {
		for _, to := range l.Spaces() {
			for _, addr := range []netip.Addr{to.Addr4, to.Second4, to.Addr6, to.Second6} {
				if !addr.IsValid() || addr.Is6() && !from.Addr6.IsValid() {
					continue
				}
				source := from.Addr4
				if addr.Is6() {
					source = from.Addr6
				}
				if from == to {
					source = addr
				}
				got, err := ask(t, from, netip.AddrPortFrom(addr, 80), lab.Socket{})
				if want := fmt.Sprintf("%s saw %v", to.Name, source); err != nil || got != want {
					t.Errorf("%s to %s at %v: %q, %v; want %q", from.Name, to.Name, addr, got, err, want)
				}
				asked++
			}
		}
	}
	if asked < 100 {
		t.Errorf("asked %d times; the members are missing", asked)
	}
}

func TestLabSecondAddressAsSource(t *testing.T) {
	testkit.NoLeaks(t)
	l := lab.New(t, lab.Simple(2, 1, 1))
	p1, p2, h1 := l.Find("p1"), l.Find("p2"), l.Find("h1")
	serve(t, p2, 80)
	serve(t, h1, 80)
	for _, tt := range []struct {
		to     netip.AddrPort
		source netip.Addr
	}{
		{p2.At4(80), p1.Second4}, {p2.At6(80), p1.Second6},
		{h1.At4(80), p1.Second4}, {h1.At6(80), p1.Second6},
	} {
		got, err := ask(t, p1, tt.to, lab.Socket{Local: netip.AddrPortFrom(tt.source, 20000), ReuseAddr: true})
		if err != nil || !strings.HasSuffix(got, " saw "+tt.source.String()) {
			t.Errorf("%v from %v: %q, %v", tt.to, tt.source, got, err)
		}
	}
}

func TestLabPodWithoutIPv6(t *testing.T) {
	testkit.NoLeaks(t)
	l := lab.New(t, lab.Topology{Nodes: []lab.NodeSpec{{Name: "n1", Pods: []lab.PodSpec{{Name: "old", NoIPv6: true}, {Name: "new"}}}}})
	old := l.Find("old")
	if text := lab.Output(t, old, "ip", "-6", "addr"); text != "" {
		t.Errorf("IPv6 addresses: %s", text)
	}
	if _, err := old.Listen(netip.MustParseAddrPort("[::1]:80"), lab.Socket{}); err == nil {
		t.Error("a listener on ::1 came up")
	}
	if text := lab.Output(t, l.Find("new"), "ip", "-6", "addr"); strings.Contains(text, "tentative") || !strings.Contains(text, "2001:db8:0:2::2/128") {
		t.Errorf("the other pod's addresses: %s", text)
	}
}

func TestLabSettings(t *testing.T) {
	testkit.NoLeaks(t)
	l := lab.New(t, lab.Simple(1, 1, 1))
	for _, s := range l.Spaces() {
		for name, want := range map[string]string{
			"net.ipv4.tcp_tw_reuse":           "1",
			"net.ipv4.ip_local_port_range":    "32768\t60999",
			"net.ipv4.tcp_congestion_control": l.Tuning.Congestion,
		} {
			if got, err := s.Sysctl(name); err != nil || got != want {
				t.Errorf("%s: %s is %q, %v; want %q", s.Name, name, got, err, want)
			}
		}
	}
	node := l.Nodes[0]
	if got, err := node.Sysctl("net.ipv6.conf.all.forwarding"); err != nil || got != "1" {
		t.Errorf("the node forwards IPv6: %q, %v", got, err)
	}
	if err := node.SetSysctl("net.ipv4.nothing", "1"); err == nil || !strings.Contains(err.Error(), "set net.ipv4.nothing to 1 in n1") {
		t.Errorf("an unknown setting gave %v", err)
	}
}

// TestLabSocketOptions reads the options back from the kernel.
func TestLabSocketOptions(t *testing.T) {
	testkit.NoLeaks(t)
	l := lab.New(t, lab.Simple(1, 1, 0))
	p1 := l.Find("p1")
	ln, err := p1.Listen(p1.At4(80), lab.Socket{Mark: 0x77, Transparent: true, Backlog: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	raw, err := ln.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var mark, protocol, transparent int
	if err := raw.Control(func(fd uintptr) {
		mark, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK)
		protocol, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PROTOCOL)
		transparent, _ = unix.GetsockoptInt(int(fd), unix.SOL_IP, unix.IP_TRANSPARENT)
	}); err != nil {
		t.Fatal(err)
	}
	if mark != 0x77 || protocol != unix.IPPROTO_TCP || transparent != 1 {
		t.Errorf("mark %#x, protocol %d, transparent %d; want 0x77, %d, 1", mark, protocol, transparent, unix.IPPROTO_TCP)
	}
	if text := lab.Output(t, p1, "ss", "-Hltn"); !strings.Contains(text, " 7 ") {
		t.Errorf("listeners, with a backlog of 7: %s", text)
	}
}

// TestLabParallel builds labs with the same addresses side by side.
func TestLabParallel(t *testing.T) {
	for i := range 4 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			l := lab.New(t, lab.Simple(2, 1, 0))
			p2 := l.Find("p2")
			serve(t, p2, 80)
			if got, err := ask(t, l.Find("p1"), p2.At4(80), lab.Socket{}); err != nil || got != "p2 saw 198.51.100.1" {
				t.Errorf("%s: %q, %v", l.Name, got, err)
			}
		})
	}
}
