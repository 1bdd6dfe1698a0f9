package node_test

import (
	"net"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/node"
	"github.com/sluice-mesh/sluice/redirect"
)

// The tests named TestLabDirectRow show what a row of the rule set is for that no
// case of docs/capture.md would miss.

// networkMark matches what the rules take for the network's own.
const networkMark = "meta mark & 0xfff == 0x53b"

// TestLabDirectRowFlows has captured flows keep to the first row of from_net: what
// arrives for them later is not marked as the network's, both out and in.
func TestLabDirectRowFlows(t *testing.T) {
	s := newScene(t, node.Config{})
	s.each(t, func(t *testing.T, v variant) {
		row := `iifname "eth0" ` + rowOf(v.at(v.host, 0), v.at(v.pod, 0)) + " tcp flags & (syn|ack) == ack"
		all := v.watch(t, v.pod, "input", "", row)
		marked := v.watch(t, v.pod, "input", "", row+" "+networkMark)
		for _, j := range v.crossing(t, v.listen(t, appPort), false) {
			j.talk()
			j.finish()
		}
		if n := marked.count(); n != 0 || all.count() == 0 {
			t.Errorf("%d of %d packets were marked; want none of several", n, all.count())
		}
	})
}

// TestLabDirectRowForwarded sends something through the pod to somewhere else: it
// goes on as it came, and the proxy sees nothing.
func TestLabDirectRowForwarded(t *testing.T) {
	s := newScene(t, node.Config{})
	for _, name := range []string{"net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"} {
		if err := s.pod.SetSysctl(name, "1"); err != nil {
			t.Fatal(err)
		}
	}
	s.each(t, func(t *testing.T, v variant) {
		behind := v.pick(netip.MustParseAddr("203.0.113.77"), netip.MustParseAddr("2001:db8:0:9::77"))
		lab.Output(t, s.host, "ip", "route", "replace", behind.String(), "via", v.addr(v.node).String())
		lab.Output(t, s.node, "ip", "route", "replace", behind.String(), "via", v.addr(v.pod).String())
		segment := lab.Segment{From: v.at(v.host, 40404), To: netip.AddrPortFrom(behind, appPort), Seq: 1, Flags: lab.SYN}
		// What the pod would send it on to is the node, which sent it: it ends here.
		passed := v.watch(t, v.pod, "forward", "drop", rowOf(segment.From, segment.To)+" meta mark & 0xfff == 0")
		v.captured(t, 0, 0, func() {
			if err := v.host.Forge(segment); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the segment to be forwarded", func() bool { return passed.count() == 1 })
		})
	})
}

// TestLabDirectRowNoTunnel dials 15008, where nobody listens. The kernel refuses in
// the name of no socket: the reset bears the mark that was reflected, and leaves.
// Where marks are not reflected it fails closed.
func TestLabDirectRowNoTunnel(t *testing.T) {
	s := newScene(t, node.Config{})
	s.each(t, func(t *testing.T, v variant) {
		to := v.at(v.pod, redirect.PortHBONE)
		if v.sysctls == "0" {
			unanswered(t, attempt{v.host, lab.Socket{}, to})
			return
		}
		if err := v.resetOf(t, v.host, lab.Socket{}, to); err != nil {
			t.Error(err)
		}
	})
}

// TestLabDirectRowInherited dials with a socket that bears the mark of what comes
// from the network, as one that was accepted from there does: it does not get past
// the proxy. What it sends afterwards is nobody's, so the dial is all there is.
func TestLabDirectRowInherited(t *testing.T) {
	s := newScene(t, node.Config{})
	port := uint16(41000) // of the next client
	s.each(t, func(t *testing.T, v variant) {
		port++
		how := v.from(v.addr(v.pod), port)
		how.Mark = redirect.MarkNetwork
		to := v.at(v.host, appPort)
		past := v.watch(t, v.node, "prerouting priority -300", "", rowOf(how.Local, to)+" tcp flags & (syn|ack) == syn")
		v.listen(t, appPort)
		(&joined{t: t}).reset(dialIn(t, v.pod, how, to))
		if n := past.count(); n != 0 {
			t.Errorf("%d SYNs left the pod", n)
		}
	})
}

// TestLabDirectRowUntransparent dials with a socket of the proxy that is not
// transparent: answers reach it.
func TestLabDirectRowUntransparent(t *testing.T) {
	s := newScene(t, node.Config{})
	s.each(t, func(t *testing.T, v variant) {
		e := v.listen(t, appPort)
		v.captured(t, 0, 0, func() {
			j := e.connect(t, v.pod, lab.Socket{Mark: redirect.MarkProxy}, v.at(v.host, appPort), v.host)
			j.talk()
			j.finish()
		})
	})
}

// TestLabDirectRowLinkLocal dials a link-local address, which is never captured:
// the answers reach the application.
func TestLabDirectRowLinkLocal(t *testing.T) {
	s := newScene(t, node.Config{})
	to := s.linkLocal(t, s.node, s.lab.Nodes[0].Pods[0].Veth).WithZone(s.index(t, s.pod, "eth0"))
	s.eachSetting(t, func(t *testing.T, v variant) {
		e := v.listen(t, appPort)
		v.captured(t, 0, 0, func() {
			j := e.connect(t, v.pod, v.app(), netip.AddrPortFrom(to, appPort), v.node)
			if peer := j.server.RemoteAddr().(*net.TCPAddr).AddrPort().Addr(); !peer.IsLinkLocalUnicast() {
				t.Errorf("the server saw %v; want a link-local address", peer)
			}
			j.talk()
			j.finish()
		})
	})
}

var linkLocalAddr = regexp.MustCompile(`inet6 (fe80:[0-9a-f:]+)/`)

// linkLocal is an interface's link-local address.
func (s *scene) linkLocal(t *testing.T, in *lab.Space, device string) netip.Addr {
	t.Helper()
	text := lab.Output(t, in, "ip", "-6", "-o", "address", "show", "dev", device, "scope", "link")
	m := linkLocalAddr.FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("%s has no link-local address: %q", device, text)
	}
	return netip.MustParseAddr(m[1])
}

// index is an interface's number, which serves as a zone in every namespace.
func (s *scene) index(t *testing.T, in *lab.Space, device string) string {
	t.Helper()
	n, _, ok := strings.Cut(lab.Output(t, in, "ip", "-o", "link", "show", "dev", device), ":")
	if !ok {
		t.Fatalf("%s: no number in %q", device, n)
	}
	return n
}
