// Package rt puts the policy rules, routes and sysctls of a Plan into a
// namespace, and knows the TCP sockets there.
//
// Data enters as a redirect.Rule, Route or Sysctl. Every step says whether it
// changed something, is done per family, and can be repeated. Sockets lists TCP
// sockets by sock_diag, Reset ends some of them.
//
// Owns: the netlink sockets of a Conn until Close. Threads: any but a loop's;
// a Conn serves one goroutine at a time.
package rt

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/redirect"
)

// patience bounds each exchange with the kernel, which answers at once.
const patience = 10 * time.Second

// A Conn speaks with the routing of one namespace.
type Conn struct {
	ns *netns.Handle
	h  *netlink.Handle
}

// Open makes a Conn whose sockets are in ns for life.
func Open(ns *netns.Handle) (*Conn, error) {
	c := &Conn{ns: ns}
	err := ns.Do(func() (err error) {
		c.h, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("routing socket in %v: %w", ns.ID(), err)
	}
	if err := c.h.SetSocketTimeout(patience); err != nil {
		c.h.Close()
		return nil, fmt.Errorf("routing socket in %v: %w", ns.ID(), err)
	}
	return c, nil
}

// Close closes the sockets.
func (c *Conn) Close() { c.h.Close() }

// Addresses are those that the namespace owns, of both families.
func (c *Conn) Addresses() ([]netip.Addr, error) {
	list, err := again(func() ([]netlink.Addr, error) { return c.h.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, c.fault("list addresses", err)
	}
	var own []netip.Addr
	for _, a := range list {
		if ip, ok := netip.AddrFromSlice(a.IP); ok {
			own = append(own, ip.Unmap())
		}
	}
	return own, nil
}

// again repeats a dump that changed under the kernel's hand.
func again[T any](dump func() ([]T, error)) ([]T, error) {
	for try := 0; ; try++ {
		list, err := dump()
		if errors.Is(err, netlink.ErrDumpInterrupted) && try < 10 {
			continue
		}
		return list, err
	}
}

// fault says where something went wrong, and what may be done about it.
func (c *Conn) fault(what string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%s in %v: %w: CAP_NET_ADMIN is needed in the namespace; run as root", what, c.ns.ID(), err)
	case errors.Is(err, unix.ENETDOWN):
		return fmt.Errorf("%s in %v: %w: lo is down there; bring it up first", what, c.ns.ID(), err)
	}
	return fmt.Errorf("%s in %v: %w", what, c.ns.ID(), err)
}

func family(f redirect.Family) int {
	if f == redirect.IPv6 {
		return netlink.FAMILY_V6
	}
	return netlink.FAMILY_V4
}

// everywhere is the prefix of length zero.
func everywhere(f redirect.Family) *net.IPNet {
	if f == redirect.IPv6 {
		return &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
	}
	return &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
}
