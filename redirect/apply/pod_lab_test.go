package apply_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/redirect"
	"github.com/sluice-mesh/sluice/redirect/apply"
)

// A scene is a pod to capture, another pod, and a folder for state.
type scene struct {
	pod, peer *lab.Space
	state     apply.StateDir
}

func newScene(t *testing.T) scene {
	t.Helper()
	testkit.NoLeaks(t)
	l := lab.New(t, lab.Simple(1, 2, 0))
	return scene{l.Find("p1"), l.Find("p2"), apply.StateDir(t.TempDir())}
}

func (s scene) apply(t *testing.T, in redirect.Intent) apply.Result {
	t.Helper()
	res, err := apply.Apply(s.pod.Handle(), in, s.state)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func (s scene) remove(t *testing.T, opt apply.RemoveOptions) apply.Removed {
	t.Helper()
	gone, err := apply.Remove(s.pod.Handle(), s.state, opt)
	if err != nil {
		t.Fatal(err)
	}
	return gone
}

// kept lists the files of the state folder.
func (s scene) kept(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(string(s.state), "netns", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// sysctls are those that capture sets.
func sysctls() []string {
	return []string{"net.ipv4.tcp_fwmark_accept", "net.ipv4.fwmark_reflect", "net.ipv6.fwmark_reflect"}
}

// snapshot is everything in a namespace that capture could touch.
func snapshot(t *testing.T, s *lab.Space) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(lab.Output(t, s, "nft", "-s", "list", "ruleset"))
	for _, f := range []string{"-4", "-6"} {
		b.WriteString(lab.Output(t, s, "ip", f, "rule"))
		b.WriteString(settled(lab.Output(t, s, "ip", f, "route", "show", "table", "all")))
	}
	for _, name := range sysctls() {
		value, err := s.Sysctl(name)
		fmt.Fprintln(&b, name, value, err)
	}
	return b.String()
}

// unchanged fails t when the namespace is not as it was.
func unchanged(t *testing.T, s *lab.Space, before string) {
	t.Helper()
	if now := snapshot(t, s); now != before {
		t.Errorf("%s was\n%s\nand is\n%s", s.Name, before, now)
	}
}

// listen makes a listener on both families.
func listen(t *testing.T, s *lab.Space, port uint16, how lab.Socket) *net.TCPListener {
	t.Helper()
	any := netip.IPv6Unspecified()
	if !s.Addr6.IsValid() {
		any = netip.IPv4Unspecified()
	}
	ln, err := s.Listen(netip.AddrPortFrom(any, port), how)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// proxySocket is how the proxy makes its listeners.
func proxySocket() lab.Socket {
	return lab.Socket{Mark: redirect.MarkProxy, Transparent: true, ReuseAddr: true, ReusePort: true}
}

// dial connects, or fails t.
func dial(t *testing.T, from *lab.Space, to netip.AddrPort, how lab.Socket) *net.TCPConn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Wait)
	defer cancel()
	c, err := from.Dial(ctx, to, how)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// accept takes the next connection of ln.
func accept(t *testing.T, ln *net.TCPListener) *net.TCPConn {
	t.Helper()
	done := make(chan *net.TCPConn, 1)
	go func() {
		if c, err := ln.AcceptTCP(); err == nil {
			done <- c
		}
		close(done)
	}()
	c := testkit.Receive(t, testkit.Wait, fmt.Sprintf("a connection on %v", ln.Addr()), done)
	t.Cleanup(func() { c.Close() })
	return c
}

// isReset fails t unless c ends with a reset.
func isReset(t *testing.T, what string, c *net.TCPConn) {
	t.Helper()
	testkit.Within(t, testkit.Wait, "the reset of "+what, func() error {
		_, err := c.Read(make([]byte, 1))
		if !errors.Is(err, sys.ECONNRESET) && !errors.Is(err, sys.ECONNABORTED) {
			return fmt.Errorf("read: %v; want a reset", err)
		}
		return nil
	})
}

// talks fails t unless a byte gets from a to b.
func talks(t *testing.T, what string, a, b *net.TCPConn) {
	t.Helper()
	testkit.Within(t, testkit.Wait, "a byte over "+what, func() error {
		if _, err := a.Write([]byte{'x'}); err != nil {
			return err
		}
		_, err := b.Read(make([]byte, 1))
		return err
	})
}

func addrOf(a net.Addr) netip.AddrPort {
	ap := a.(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}

// write puts text into a file of its own and names it.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// hostState is what of the test's own namespace capture could touch.
func hostState(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, args := range [][]string{{"nft", "list", "tables"}, {"ip", "rule"}, {"ip", "-6", "rule"}, {"ip", "route", "show", "table", "all"}} {
		out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
		fmt.Fprintln(&b, string(out), err)
	}
	return b.String()
}

// settled takes out of ip's output what the kernel adds by itself, which it does
// when a link comes up: a moment after the lab is built.
func settled(routes string) string {
	var rest []string
	for line := range strings.Lines(routes) {
		if !strings.Contains(line, "proto kernel") {
			rest = append(rest, line)
		}
	}
	return strings.Join(rest, "")
}
