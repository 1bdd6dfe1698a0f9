package flow

import "net/netip"

// Addrs is an immutable set of addresses, such as those of a pod. The zero
// value is empty.
type Addrs struct {
	set map[netip.Addr]struct{}
}

// NewAddrs makes the set of list; zones are dropped.
func NewAddrs(list ...netip.Addr) Addrs {
	set := make(map[netip.Addr]struct{}, len(list))
	for _, a := range list {
		set[a.Unmap().WithZone("")] = struct{}{}
	}
	return Addrs{set}
}

// Has reports whether a, whatever its zone, is in the set.
func (s Addrs) Has(a netip.Addr) bool {
	_, ok := s.set[a.WithZone("")]
	return ok
}

// Len is how many there are.
func (s Addrs) Len() int { return len(s.set) }
