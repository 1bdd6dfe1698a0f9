package node_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/node"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/redirect"
)

// unlimitedICMP has the node answer every packet that it can't forward.
func (s *scene) unlimitedICMP(t *testing.T) {
	t.Helper()
	for _, name := range []string{"net.ipv4.icmp_ratelimit", "net.ipv6.icmp.ratelimit"} {
		if err := s.node.SetSysctl(name, "0"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLabDirectCase12PathMTU narrows a link behind the sender's own: the node says
// so, the message finds the proxy's socket in the pod, or the host's outside, and
// bulk gets through, both ways.
func TestLabDirectCase12PathMTU(t *testing.T) {
	s := newScene(t, node.Config{})
	s.unlimitedICMP(t)
	for _, k := range []struct {
		name   string
		narrow string // the node's link
		sender *lab.Space
	}{
		{"from the pod", "eth0", s.pod},
		{"to the pod", s.lab.Nodes[0].Pods[0].Veth, s.host},
	} {
		t.Run(k.name, func(t *testing.T) {
			lab.Output(t, s.node, "ip", "link", "set", "dev", k.narrow, "mtu", "1280")
			defer lab.Output(t, s.node, "ip", "link", "set", "dev", k.narrow, "mtu", "1500")
			s.each(t, func(t *testing.T, v variant) {
				tooBig := "icmp type destination-unreachable icmp code frag-needed"
				if v.v6 {
					tooBig = "icmpv6 type packet-too-big"
				}
				told := v.watch(t, k.sender, "input", "", tooBig)
				e := v.listen(t, appPort)
				for i := range 2 { // out of the pod, into it
					// What was learned before would spare the node the trouble.
					for _, s := range []*lab.Space{v.pod, v.host} {
						lab.Output(t, s, "ip", v.flag(), "route", "flush", "cache")
					}
					before := told.count()
					p := v.applications(t, e)[i]
					from, to := p.app, p.other
					if k.sender == v.host {
						from, to = to, from
					}
					const size = 1 << 20
					go p.sendAll(from, size)
					p.wantEOF(to, size)
					if told.count() == before {
						t.Error("the node said nothing of its narrow link")
					}
				}
			})
		})
	}
}

// flag is what ip(8) calls the family.
func (v variant) flag() string {
	if v.v6 {
		return "-6"
	}
	return "-4"
}

// TestLabDirectCase12Unreachable has the node say that there is no way: the client
// is reset as soon as it would have been told without capture. UDP sockets are
// told themselves.
func TestLabDirectCase12Unreachable(t *testing.T) {
	s := newScene(t, node.Config{})
	s.unlimitedICMP(t)
	nowhere4, nowhere6 := netip.MustParseAddr("203.0.113.99"), netip.MustParseAddr("2001:db8:0:9::63")
	lab.Output(t, s.node, "ip", "route", "add", nowhere4.String(), "via", s.host.Addr4.String())
	lab.Output(t, s.node, "ip", "route", "add", nowhere6.String(), "via", s.host.Addr6.String())
	// UDP sockets are told of no milder kind.
	s.watch(t, s.node, "forward", "reject with icmpx admin-prohibited", "ip daddr "+nowhere4.String(), "ip6 daddr "+nowhere6.String())
	s.eachSetting(t, func(t *testing.T, v variant) {
		before := v.figures(t)
		var wg sync.WaitGroup
		for _, v := range v.both() {
			nowhere := netip.AddrPortFrom(v.pick(nowhere4, nowhere6), appPort)
			var with, without time.Duration
			var two sync.WaitGroup
			two.Go(func() {
				start := time.Now()
				c, err := v.pod.Dial(t.Context(), nowhere, v.app())
				if err == nil {
					limit(t, c)
					_, err = c.Read(make([]byte, 1))
					c.Close()
				}
				if with = time.Since(start); !errors.Is(err, sys.ECONNRESET) {
					t.Errorf("%v: %v; want a reset", nowhere, err)
				}
			})
			two.Go(func() {
				start := time.Now()
				_, err := v.pod.Dial(t.Context(), nowhere, lab.Socket{Mark: redirect.MarkProxy})
				if without = time.Since(start); err == nil {
					t.Errorf("%v: connected", nowhere)
				}
			})
			wg.Go(func() {
				two.Wait()
				// The kernel may ignore what comes while connect still runs, and send a
				// second SYN.
				if with > without+noRetry {
					t.Errorf("%v: told after %v; without capture after %v", nowhere, with, without)
				}
			})

			told := error(sys.EHOSTUNREACH)
			if v.v6 {
				told = sys.EACCES
			}
			for _, k := range []struct {
				from *lab.Space
				to   netip.AddrPort
				want error
			}{
				{v.pod, nowhere, told},
				{v.pod, v.at(v.host, appPort), sys.ECONNREFUSED},
				{v.host, v.at(v.pod, appPort), sys.ECONNREFUSED},
			} {
				if err := sendUDP(t, k.from, v.app(), k.to); !errors.Is(err, k.want) {
					t.Errorf("UDP from %s to %v: %v; want %v", k.from.Name, k.to, err, k.want)
				}
			}
		}
		wg.Wait()
		v.closedBy(t, before, flow.Outbound, flow.CloseUnreachable, 2)
	})
}

// sendUDP sends to an address and returns what the socket is told.
func sendUDP(t *testing.T, from *lab.Space, how lab.Socket, to netip.AddrPort) error {
	t.Helper()
	c := dialUDP(t, from, how, to)
	if _, err := c.Write([]byte("anybody?")); err != nil {
		return err
	}
	n, err := c.Read(make([]byte, 100))
	if err == nil {
		err = fmt.Errorf("an answer of %d bytes", n)
	}
	return err
}

// TestLabDirectCase12UDP sends datagrams both ways, small ones and such that are
// sent in pieces, also to the port of DNS, which is not captured here: both sides
// see each other, and the proxy sees nothing.
func TestLabDirectCase12UDP(t *testing.T) {
	s := newScene(t, node.Config{})
	s.each(t, func(t *testing.T, v variant) {
		v.captured(t, 0, 0, func() {
			for _, port := range []uint16{appPort, 53, 15001, 15006} {
				for _, k := range []struct{ from, to *lab.Space }{{v.pod, v.host}, {v.host, v.pod}, {v.pod, v.peer}} {
					at := v.at(k.to, port)
					server, err := k.to.ListenUDP(at, v.app())
					if err != nil {
						t.Fatal(err)
					}
					limitUDP(t, server)
					client := dialUDP(t, k.from, v.app(), at)
					for _, size := range []int{10, 5000} {
						bounce(t, client, server, size)
					}
					client.Close()
					server.Close()
				}
			}
		})
	})
}

// bounce sends a datagram of a size there and back.
func bounce(t *testing.T, client, server *net.UDPConn, size int) {
	t.Helper()
	buf := make([]byte, 10000)
	if _, err := client.Write(buf[:size]); err != nil {
		t.Fatal(err)
	}
	n, peer, err := server.ReadFromUDPAddrPort(buf)
	if want := client.LocalAddr().(*net.UDPAddr).AddrPort(); err != nil || n != size || peer != want {
		t.Fatalf("%d bytes from %v, %v; want %d from %v", n, peer, err, size, want)
	}
	if _, err := server.WriteToUDPAddrPort(buf[:n], peer); err != nil {
		t.Fatal(err)
	}
	if n, err := client.Read(buf); err != nil || n != size {
		t.Errorf("%d bytes came back, %v; want %d", n, err, size)
	}
}

// dialUDP connects a UDP socket inside a namespace.
func dialUDP(t *testing.T, from *lab.Space, how lab.Socket, to netip.AddrPort) *net.UDPConn {
	t.Helper()
	c, err := from.DialUDP(to, how)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	limitUDP(t, c)
	return c
}

func limitUDP(t *testing.T, c *net.UDPConn) {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
}
