package netns

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"

	"github.com/mdlayher/netlink"

	"github.com/sluice-mesh/sluice/dataplane/flow"
)

// Of linux/rtnetlink.h and linux/if_addr.h.
const (
	routeFamily  = 0  // NETLINK_ROUTE
	newAddr      = 20 // RTM_NEWADDR
	getAddr      = 22 // RTM_GETADDR
	groupIPv4    = 1 << (5 - 1)
	groupIPv6    = 1 << (9 - 1)
	addrMsgBytes = 8 // struct ifaddrmsg
	attrAddress  = 1 // IFA_ADDRESS
	attrLocal    = 2 // IFA_LOCAL: the own address of a point-to-point link
)

// Addrs asks the kernel for all addresses of the namespace.
func (h *Handle) Addrs() (flow.Addrs, error) {
	conn, err := netlink.Dial(routeFamily, &netlink.Config{NetNS: h.fd.Raw()})
	if err != nil {
		return flow.Addrs{}, fmt.Errorf("netlink socket in %v: %w", h.id, err)
	}
	defer conn.Close()
	return dumpAddrs(conn)
}

func dumpAddrs(conn *netlink.Conn) (flow.Addrs, error) {
	msgs, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: getAddr, Flags: netlink.Request | netlink.Dump},
		Data:   make([]byte, addrMsgBytes),
	})
	if err != nil {
		return flow.Addrs{}, fmt.Errorf("list addresses: %w", err)
	}
	var all []netip.Addr
	for _, m := range msgs {
		if m.Header.Type != newAddr {
			continue
		}
		a, err := parseAddr(m.Data)
		if err != nil {
			return flow.Addrs{}, fmt.Errorf("list addresses: %w", err)
		}
		if a.IsValid() {
			all = append(all, a)
		}
	}
	return flow.NewAddrs(all...), nil
}

// parseAddr finds the own address in an RTM_NEWADDR message.
func parseAddr(b []byte) (netip.Addr, error) {
	if len(b) < addrMsgBytes {
		return netip.Addr{}, fmt.Errorf("address message of %d bytes", len(b))
	}
	attrs, err := netlink.NewAttributeDecoder(b[addrMsgBytes:])
	if err != nil {
		return netip.Addr{}, err
	}
	attrs.ByteOrder = binary.NativeEndian
	var address, own netip.Addr
	for attrs.Next() {
		switch attrs.Type() {
		case attrAddress:
			address, _ = netip.AddrFromSlice(attrs.Bytes())
		case attrLocal:
			own, _ = netip.AddrFromSlice(attrs.Bytes())
		}
	}
	if own.IsValid() {
		address = own
	}
	return address, attrs.Err()
}

// An AddrWatch follows the addresses of a namespace until Close. It owns a
// netlink socket and the goroutine that reads it.
type AddrWatch struct {
	events *netlink.Conn
	done   sync.WaitGroup
}

// WatchAddrs tells changed the addresses of the namespace: once before it
// returns, and again after each change, from a goroutine of its own. It borrows
// h for the length of the call.
func WatchAddrs(h *Handle, changed func(flow.Addrs)) (*AddrWatch, error) {
	events, err := netlink.Dial(routeFamily, &netlink.Config{NetNS: h.fd.Raw(), Groups: groupIPv4 | groupIPv6})
	if err != nil {
		return nil, fmt.Errorf("watch addresses of %v: %w", h.id, err)
	}
	queries, err := netlink.Dial(routeFamily, &netlink.Config{NetNS: h.fd.Raw()})
	if err != nil {
		_ = events.Close()
		return nil, fmt.Errorf("netlink socket in %v: %w", h.id, err)
	}
	now, err := dumpAddrs(queries)
	if err != nil {
		_ = events.Close()
		_ = queries.Close()
		return nil, fmt.Errorf("namespace %v: %w", h.id, err)
	}
	changed(now)
	w := &AddrWatch{events: events}
	w.done.Go(func() { w.follow(queries, changed) })
	return w, nil
}

// follow lists all addresses again after each event: events may be lost when
// there are many, and the list is short. It takes queries.
func (w *AddrWatch) follow(queries *netlink.Conn, changed func(flow.Addrs)) {
	defer queries.Close()
	for {
		if _, err := w.events.Receive(); err != nil && !lostEvents(err) {
			return // closed
		}
		now, err := dumpAddrs(queries)
		if err != nil {
			continue // the dump raced with a change, whose event follows
		}
		changed(now)
	}
}

// Close ends the watch and waits for its goroutine.
func (w *AddrWatch) Close() {
	_ = w.events.Close()
	w.done.Wait()
}
