package node_test

import (
	"io"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/node"
	"github.com/sluice-mesh/sluice/redirect"
)

// TestLabDirectCase1 walks every kind of connection through mode direct: each
// arrives where it belongs, with the right addresses, through the proxy or past
// it, and none is tracked.
func TestLabDirectCase1(t *testing.T) {
	s := newScene(t, node.Config{})
	w := s.prepareWalks(t)
	s.each(t, func(t *testing.T, v variant) {
		w.all(t, v, func(t *testing.T) {
			for _, p := range []*lab.Space{v.pod, v.peer} {
				if n := tracked(t, p); n != 0 {
					t.Errorf("%s: %d connections are tracked; want none", p.Name, n)
				}
			}
		})
	})
}

// tracked is how many connections conntrack knows in a pod.
func tracked(t *testing.T, pod *lab.Space) int {
	t.Helper()
	text := strings.TrimSpace(lab.Output(t, pod, "conntrack", "-C"))
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("conntrack -C said %q", text)
	}
	return n
}

// walks are the ways that a connection can take, and what was set up for them.
type walks struct {
	vip4, vip6 netip.Addr // a service's virtual address, with the host behind it
	nat        *watch     // counts new connections to it
}

// prepareWalks gives the node the probe address and a service.
func (s *scene) prepareWalks(t *testing.T) *walks {
	t.Helper()
	w := &walks{vip4: netip.MustParseAddr("203.0.113.100"), vip6: netip.MustParseAddr("2001:db8:0:9::64")}
	for _, probe := range []netip.Addr{redirect.DefaultProbe4(), redirect.DefaultProbe6()} {
		lab.Output(t, s.node, "ip", "address", "add", netip.PrefixFrom(probe, probe.BitLen()).String(), "dev", "lo")
	}
	w.nat = s.watch(t, s.node, "prerouting priority -300", "",
		"ip daddr "+w.vip4.String()+" tcp flags & (syn|ack) == syn", "ip6 daddr "+w.vip6.String()+" tcp flags & (syn|ack) == syn")
	s.balance(t, w.vip4, w.vip6, s.host)
	return w
}

// balance has the node send what is for a virtual address to a server.
func (s *scene) balance(t *testing.T, vip4, vip6 netip.Addr, to *lab.Space) {
	t.Helper()
	lab.Output(t, s.node, "nft", "add table inet service; "+
		"add chain inet service pre { type nat hook prerouting priority -100; }; "+
		"add rule inet service pre ip daddr "+vip4.String()+" dnat ip to "+to.Addr4.String()+"; "+
		"add rule inet service pre ip6 daddr "+vip6.String()+" dnat ip6 to "+to.Addr6.String())
}

// A walk is one connection.
type walk struct {
	name    string
	from    *lab.Space
	how     lab.Socket
	to      netip.AddrPort
	by      *lab.Space     // where it must arrive
	source  netip.Addr     // what the server must see
	dst     netip.AddrPort // what the server must be asked for
	out, in uint64         // flows that the proxy must open
}

// all walks all ways of a variant, each followed by check.
func (w *walks) all(t *testing.T, v variant, check func(t *testing.T)) {
	e := v.listen(t, appPort)
	at := func(s *lab.Space) netip.AddrPort { return v.at(s, appPort) }
	of := func(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, appPort) }
	pod, host := v.addr(v.pod), v.addr(v.host)
	loopback, probe := v.pick(netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()), v.pick(redirect.DefaultProbe4(), redirect.DefaultProbe6())
	vip := v.pick(w.vip4, w.vip6)
	list := []walk{
		{"out", v.pod, v.app(), at(v.host), v.host, pod, at(v.host), 1, 0},
		{"out from the second address", v.pod, v.from(v.second(v.pod), 0), at(v.host), v.host, v.second(v.pod), at(v.host), 1, 0},
		{"in", v.host, lab.Socket{}, at(v.pod), v.pod, host, at(v.pod), 0, 1},
		{"in to the second address", v.host, lab.Socket{}, of(v.second(v.pod)), v.pod, host, of(v.second(v.pod)), 0, 1},
		{"self by own address", v.pod, v.app(), at(v.pod), v.pod, pod, at(v.pod), 0, 0},
		{"loopback", v.pod, v.app(), of(loopback), v.pod, loopback, of(loopback), 0, 0},
		{"pod to pod", v.pod, v.app(), at(v.peer), v.peer, pod, at(v.peer), 1, 1},
		{"virtual address", v.pod, v.app(), of(vip), v.host, pod, at(v.host), 1, 0},
		{"from the probe address", v.node, lab.Socket{Local: netip.AddrPortFrom(probe, 0)}, at(v.pod), v.pod, probe, at(v.pod), 0, 0},
		{"to the probe address", v.pod, v.app(), of(probe), v.node, pod, of(probe), 0, 0},
	}
	if !v.v6 {
		other := netip.MustParseAddr("127.0.0.9")
		list = append(list, walk{"loopback, another address", v.pod, v.app(), of(other), v.pod, loopback, of(other), 0, 0})
	}
	for _, k := range list {
		t.Run(k.name, func(t *testing.T) {
			v.captured(t, k.out, k.in, func() {
				before := w.nat.count()
				j := k.run(t, e)
				j.talk()
				j.finish()
				// The destination is kept up to the node, whose NAT alone leads to the host.
				if n := w.nat.count() - before; (n == 1) != (k.to.Addr() == vip) {
					t.Errorf("the node saw %d connections to the virtual address", n)
				}
			})
			check(t)
		})
	}
	t.Run("port 15008 with a third address", func(t *testing.T) {
		v.captured(t, 0, 0, func() { v.third(t, e) })
		check(t)
	})
}

// run connects and compares addresses.
func (k walk) run(t *testing.T, e *ears) *joined {
	t.Helper()
	j := e.connect(t, k.from, k.how, k.to, k.by)
	peer, local := addrOf(j.server.RemoteAddr()), addrOf(j.server.LocalAddr())
	if peer.Addr() != k.source || local != k.dst {
		t.Errorf("the server saw %v to %v; want %v to %v", peer, local, k.source, k.dst)
	}
	// Ports towards an application are the chooser's, all others the client's own
	// or the kernel's.
	client := addrOf(j.client.LocalAddr())
	if k.in == 1 && (!spoofRange(peer.Port()) || peer.Port() == client.Port()) {
		t.Errorf("the application saw port %d, of a client on port %d", peer.Port(), client.Port())
	}
	if k.out+k.in == 0 && peer.Port() != client.Port() {
		t.Errorf("the server saw port %d; want the client's, %d", peer.Port(), client.Port())
	}
	return j
}

// third is what a tunnel's end does: it takes a connection on 15008, and connects
// to the application in the name of somebody else.
func (v variant) third(t *testing.T, e *ears) {
	mine := lab.Socket{Mark: redirect.MarkProxy, Transparent: true, ReuseAddr: true, ReusePort: true}
	ln, err := v.pod.Listen(netip.AddrPortFrom(netip.IPv6Unspecified(), redirect.PortHBONE), mine)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	outer := &joined{t: t, client: dialIn(t, v.host, lab.Socket{}, v.at(v.pod, redirect.PortHBONE))}
	limitListener(t, ln)
	if outer.server, err = ln.AcceptTCP(); err != nil {
		t.Fatal(err)
	}
	defer outer.server.Close()
	limit(t, outer.server)
	if peer, local := addrOf(outer.server.RemoteAddr()), addrOf(outer.server.LocalAddr()); peer.Addr() != v.addr(v.host) || local != v.at(v.pod, redirect.PortHBONE) {
		t.Errorf("on 15008 came %v to %v", peer, local)
	}

	somebody := netip.AddrPortFrom(v.pick(netip.MustParseAddr("192.0.2.77"), netip.MustParseAddr("2001:db8:0:1::77")), 20202)
	mine.ReusePort, mine.Local = false, somebody
	inner := e.connect(t, v.pod, mine, v.at(v.pod, appPort), v.pod)
	if peer := addrOf(inner.server.RemoteAddr()); peer != somebody {
		t.Errorf("the application saw %v; want %v", peer, somebody)
	}
	for _, copied := range [][4]io.ReadWriter{
		{outer.client, outer.server, inner.client, inner.server},
		{inner.server, inner.client, outer.server, outer.client},
	} {
		const text = "through a tunnel"
		if _, err := io.WriteString(copied[0], text); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(copied[2], copied[1], int64(len(text))); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(text))
		if _, err := io.ReadFull(copied[3], got); err != nil || string(got) != text {
			t.Errorf("read %q, %v; want %q", got, err, text)
		}
	}
	inner.finish()
	outer.finish()
}
