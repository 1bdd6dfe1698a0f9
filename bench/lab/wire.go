package lab

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	bridgeName = "trunk"
	nicName    = "eth0"
)

// gateway6 is what a pod's IPv6 default route points at: the node's side of each
// pod's link has it.
var gateway6 = netip.MustParseAddr("fe80::1")

// wire sets up links, addresses and routes.
func (l *Lab) wire(p plan) error {
	var w wiring
	defer w.close()
	trunk := w.open(l.Trunk, l.Tuning.common())
	trunk.bridge()
	nodes := make([]*netlinker, len(l.Nodes))
	for i, n := range l.Nodes {
		nodes[i] = w.open(n.Space, l.Tuning.common(), forwarding())
		trunk.port(nodes[i])
	}
	hosts := make([]*netlinker, len(l.Hosts))
	for i, h := range l.Hosts {
		hosts[i] = w.open(h.Space, l.Tuning.common())
		trunk.port(hosts[i])
	}
	for i, n := range l.Nodes {
		for j, pod := range n.Pods {
			settings := [][2]string(nil)
			if p.nodes[i].pods[j].noIPv6 {
				settings = noIPv6()
			}
			nodes[i].pod(pod, w.open(pod.Space, l.Tuning.common(), settings))
			for _, other := range slices.Concat(nodes, hosts) {
				if other != nodes[i] {
					other.via(pod.Addrs.all(), n.Addrs)
				}
			}
		}
	}
	for _, h := range hosts {
		for _, other := range slices.Concat(nodes, hosts) {
			if other != h {
				other.via([]netip.Addr{h.Second4, h.Second6}, h.Addrs)
			}
		}
	}
	for _, n := range w.linkers {
		n.ready()
	}
	return w.err
}

// A wiring is the work on one lab. The first error stops it: later steps do
// nothing.
type wiring struct {
	linkers []*netlinker
	err     error
}

// A netlinker talks rtnetlink in one namespace.
type netlinker struct {
	*Space
	w *wiring
	h *netlink.Handle
}

// open applies the settings, brings lo up and returns the namespace's netlinker.
func (w *wiring) open(s *Space, settings ...[][2]string) *netlinker {
	n := &netlinker{Space: s, w: w}
	for _, part := range settings {
		w.try(func() error { return s.apply(part...) })
	}
	w.try(func() error {
		return s.Do(func() (err error) {
			n.h, err = netlink.NewHandle(unix.NETLINK_ROUTE) // its socket stays in this namespace
			return err
		})
	})
	if n.h != nil {
		w.linkers = append(w.linkers, n)
	}
	n.step("lo up", func() error { return n.up("lo") })
	return n
}

func (w *wiring) try(fn func() error) {
	if w.err == nil {
		w.err = fn()
	}
}

func (w *wiring) close() {
	for _, n := range w.linkers {
		n.h.Close()
	}
}

// step runs fn unless a step before has failed.
func (n *netlinker) step(what string, fn func() error) {
	n.w.try(func() error {
		if err := fn(); err != nil {
			return fmt.Errorf("%s: %s: %w", n.Name, what, err)
		}
		return nil
	})
}

func (n *netlinker) up(dev string) error {
	link, err := n.h.LinkByName(dev)
	if err != nil {
		return err
	}
	return n.h.LinkSetUp(link)
}

// bridge makes the trunk's bridge. It floods multicast, which IPv6 neighbour
// discovery needs.
func (n *netlinker) bridge() {
	n.step("bridge", func() error {
		snooping := false
		attrs := netlink.NewLinkAttrs()
		attrs.Name = bridgeName
		if err := n.h.LinkAdd(&netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}); err != nil {
			return err
		}
		return n.up(bridgeName)
	})
}

// port puts a node or host on the bridge and gives it its addresses.
func (n *netlinker) port(member *netlinker) {
	n.step("port for "+member.Name, func() error {
		master, err := n.h.LinkByName(bridgeName)
		if err != nil {
			return err
		}
		return n.pair("t-"+member.Name, member, master.Attrs().Index)
	})
	member.address(member.Addr4, 24)
	member.address(member.Addr6, 64)
	member.address(member.Second4, 32)
	member.address(member.Second6, 128)
}

// pair makes a veth pair from here to eth0 in the other namespace, both up.
func (n *netlinker) pair(name string, to *netlinker, master int) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MasterIndex = name, master
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: nicName, PeerNamespace: netlink.NsFd(to.handle.FD().Raw())}
	if err := n.h.LinkAdd(veth); err != nil {
		return err
	}
	if err := to.up(nicName); err != nil {
		return err
	}
	return n.up(name)
}

// pod connects a pod to this node: its addresses, the node's routes to them, and
// its default routes to the node.
func (n *netlinker) pod(pod *Pod, in *netlinker) {
	n.step("link to "+pod.Name, func() error { return n.pair(pod.Veth, in, 0) })
	n.addressOn(pod.Veth, gateway6, 64)
	in.address(pod.Addr4, 32)
	in.address(pod.Second4, 32)
	in.address(pod.Addr6, 128)
	in.address(pod.Second6, 128)
	for _, a := range pod.all() {
		n.route(pod.Veth, prefix(a), netip.Addr{}, netip.Addr{})
	}
	in.route(nicName, prefix(n.Addr4), netip.Addr{}, netip.Addr{})
	in.route(nicName, netip.PrefixFrom(netip.IPv4Unspecified(), 0), n.Addr4, pod.Addr4)
	if pod.Addr6.IsValid() {
		in.route(nicName, netip.PrefixFrom(netip.IPv6Unspecified(), 0), gateway6, pod.Addr6)
	}
}

// via routes addresses over the node or host that has them. Whoever has two
// addresses talks from the first.
func (n *netlinker) via(to []netip.Addr, next Addrs) {
	for _, a := range to {
		if a.Is4() {
			n.route(nicName, prefix(a), next.Addr4, n.Addr4)
		} else {
			n.route(nicName, prefix(a), next.Addr6, n.Addr6)
		}
	}
}

// address adds an address to eth0; an absent one is left out.
func (n *netlinker) address(a netip.Addr, bits int) {
	if a.IsValid() {
		n.addressOn(nicName, a, bits)
	}
}

func (n *netlinker) addressOn(dev string, a netip.Addr, bits int) {
	n.step(fmt.Sprintf("address %v on %s", a, dev), func() error {
		link, err := n.h.LinkByName(dev)
		if err != nil {
			return err
		}
		addr := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(a, bits))}
		if a.Is6() {
			addr.Flags = unix.IFA_F_NODAD
		}
		return n.h.AddrAdd(link, addr)
	})
}

// route adds a route out of dev, by a gateway and with a preferred source where
// these are given.
func (n *netlinker) route(dev string, to netip.Prefix, gateway, source netip.Addr) {
	n.step(fmt.Sprintf("route to %v on %s", to, dev), func() error {
		link, err := n.h.LinkByName(dev)
		if err != nil {
			return err
		}
		r := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(to), Gw: ip(gateway), Src: ip(source)}
		if !gateway.IsValid() {
			r.Scope = netlink.SCOPE_LINK
		}
		return n.h.RouteAdd(r)
	})
}

// all lists the addresses that exist.
func (a Addrs) all() []netip.Addr {
	var list []netip.Addr
	for _, x := range []netip.Addr{a.Addr4, a.Second4, a.Addr6, a.Second6} {
		if x.IsValid() {
			list = append(list, x)
		}
	}
	return list
}

func prefix(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

func ip(a netip.Addr) net.IP { return a.AsSlice() }

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: ip(p.Addr()), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
