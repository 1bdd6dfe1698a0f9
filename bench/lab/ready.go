package lab

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// readyDeadline is how long the kernel may take to make an address local.
const readyDeadline = 5 * time.Second

// ready waits until every address of the namespace is local. The kernel makes an
// IPv6 address local by a work queue, also without duplicate address detection
// (addrconf_dad_work); what is dialled before that is looked for on the link, and
// fails seconds later.
func (n *netlinker) ready() {
	for _, a := range []netip.Addr{n.Addr4, n.Addr6, n.Second4, n.Second6} {
		if a.IsValid() {
			n.step(fmt.Sprintf("wait for %v to be local", a), func() error { return n.waitLocal(a) })
		}
	}
}

func (n *netlinker) waitLocal(a netip.Addr) error {
	for deadline := time.Now().Add(readyDeadline); ; time.Sleep(time.Millisecond) {
		routes, err := n.h.RouteGet(net.IP(a.AsSlice()))
		if err == nil && len(routes) > 0 && routes[0].Type == unix.RTN_LOCAL {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %v; route to it: %v, %v", readyDeadline, routes, err)
		}
	}
}
