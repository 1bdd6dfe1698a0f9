package rt

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sluice-mesh/sluice/redirect"
)

// AddRoute adds r unless it is there. Any other route in its table is in the
// way: captured traffic would follow it.
func (c *Conn) AddRoute(r redirect.Route) (added bool, err error) {
	lo, up, list, err := c.table(r)
	if err != nil {
		return false, err
	}
	for _, have := range list {
		if !ours(have, lo) {
			return false, c.fault(routeText(r), fmt.Errorf("a route of that table (%v) %w; the pod can't use table %d for itself", have, ErrForeign, r.Table))
		}
	}
	if len(list) > 0 {
		return false, nil
	}
	// The kernel takes an IPv4 route over lo while it is down, but no packet would
	// follow it.
	if !up {
		return false, c.fault("add "+routeText(r), unix.ENETDOWN)
	}
	if err := c.h.RouteAdd(toRoute(r, lo)); err != nil && !errors.Is(err, unix.EEXIST) {
		return false, c.fault("add "+routeText(r), err)
	}
	return true, nil
}

// DelRoute deletes r if it is there, and no other route.
func (c *Conn) DelRoute(r redirect.Route) (deleted bool, err error) {
	lo, _, list, err := c.table(r)
	if err != nil {
		return false, err
	}
	for _, have := range list {
		if !ours(have, lo) {
			continue
		}
		err := c.h.RouteDel(toRoute(r, lo))
		if errors.Is(err, unix.ESRCH) {
			return false, nil
		}
		if err != nil {
			return false, c.fault("delete "+routeText(r), err)
		}
		return true, nil
	}
	return false, nil
}

// table lists r's table in its family, and finds lo.
func (c *Conn) table(r redirect.Route) (lo int, up bool, list []netlink.Route, err error) {
	link, err := c.h.LinkByName("lo")
	if err != nil {
		return 0, false, nil, c.fault("find lo", err)
	}
	list, err = again(func() ([]netlink.Route, error) {
		return c.h.RouteListFiltered(family(r.Family), &netlink.Route{Table: r.Table}, netlink.RT_FILTER_TABLE)
	})
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) {
		err = nil // a kernel without this family has no routes of it
	}
	if err != nil {
		return 0, false, nil, c.fault(fmt.Sprintf("list routes of table %d", r.Table), err)
	}
	return link.Attrs().Index, link.Attrs().Flags&net.FlagUp != 0, list, nil
}

// ours reports whether r is "local default dev lo".
func ours(r netlink.Route, lo int) bool {
	everywhere := r.Dst == nil
	if !everywhere {
		ones, _ := r.Dst.Mask.Size()
		everywhere = ones == 0
	}
	return everywhere && r.Type == unix.RTN_LOCAL && r.LinkIndex == lo
}

func toRoute(r redirect.Route, lo int) *netlink.Route {
	return &netlink.Route{
		Family:    family(r.Family),
		Table:     r.Table,
		Type:      unix.RTN_LOCAL,
		Scope:     unix.RT_SCOPE_HOST,
		LinkIndex: lo,
		Dst:       everywhere(r.Family),
	}
}
