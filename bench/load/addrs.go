package load

import (
	"fmt"
	"net/netip"
	"strconv"
)

// Addrs are n addresses with ports from first on: churn spreads over several so
// that the tuples in TIME_WAIT do not run out.
func Addrs(addr netip.Addr, first uint16, n int) []netip.AddrPort {
	list := make([]netip.AddrPort, n)
	for i := range list {
		list[i] = netip.AddrPortFrom(addr, first+uint16(i))
	}
	return list
}

// ParseAddrs reads ADDRESS:PORT or ADDRESS:PORT+N, which is N ports from PORT on.
func ParseAddrs(text string) ([]netip.AddrPort, error) {
	base, count := text, 1
	for i := len(text) - 1; i >= 0; i-- {
		if text[i] == '+' {
			n, err := strconv.Atoi(text[i+1:])
			if err != nil || n < 1 || n > 1024 {
				return nil, fmt.Errorf("%q: number of ports %q; want 1 to 1024", text, text[i+1:])
			}
			base, count = text[:i], n
			break
		}
	}
	ap, err := netip.ParseAddrPort(base)
	if err != nil {
		return nil, fmt.Errorf("%q: %w", text, err)
	}
	if int(ap.Port())+count > 1<<16 {
		return nil, fmt.Errorf("%q: ports go beyond 65535", text)
	}
	return Addrs(ap.Addr(), ap.Port(), count), nil
}
