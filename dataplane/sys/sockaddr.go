package sys

import (
	"encoding/binary"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// A Family is an address family of a TCP socket.
type Family uint16

// The families.
const (
	IPv4 Family = unix.AF_INET
	IPv6 Family = unix.AF_INET6
)

// FamilyOf is the family of an unmapped address.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return IPv4
	}
	return IPv6
}

// sockAddr is room for one struct sockaddr_in or sockaddr_in6.
type sockAddr struct {
	b [unix.SizeofSockaddrInet6]byte
	n uint32 // bytes of b in use
}

// set encodes ap; IPv4 in its own family.
func (a *sockAddr) set(ap netip.AddrPort) {
	addr := ap.Addr().Unmap()
	binary.NativeEndian.PutUint16(a.b[0:], uint16(FamilyOf(addr)))
	binary.BigEndian.PutUint16(a.b[2:], ap.Port())
	if addr.Is4() {
		v4 := addr.As4()
		copy(a.b[4:8], v4[:])
		clear(a.b[8:16])
		a.n = unix.SizeofSockaddrInet4
		return
	}
	clear(a.b[4:8])
	v6 := addr.As16()
	copy(a.b[8:24], v6[:])
	scope, _ := strconv.ParseUint(addr.Zone(), 10, 32) // our zones are interface indices
	binary.NativeEndian.PutUint32(a.b[24:], uint32(scope))
	a.n = unix.SizeofSockaddrInet6
}

// ParseSockAddr decodes a struct sockaddr_in or sockaddr_in6 as the kernel
// writes it. IPv4 in IPv6 form becomes IPv4; the scope of a link-local address
// becomes a zone that is the interface index. It fails with EINVAL on anything
// else. It allocates for link-local addresses only.
func ParseSockAddr(b []byte) (netip.AddrPort, error) {
	if len(b) < 2 {
		return netip.AddrPort{}, EINVAL
	}
	switch Family(binary.NativeEndian.Uint16(b)) {
	case IPv4:
		if len(b) < 8 {
			return netip.AddrPort{}, EINVAL
		}
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:])), nil
	case IPv6:
		if len(b) < unix.SizeofSockaddrInet6 {
			return netip.AddrPort{}, EINVAL
		}
		addr := netip.AddrFrom16([16]byte(b[8:24])).Unmap()
		if scope := binary.NativeEndian.Uint32(b[24:]); scope != 0 && addr.Is6() && addr.IsLinkLocalUnicast() {
			addr = addr.WithZone(strconv.FormatUint(uint64(scope), 10))
		}
		return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(b[2:])), nil
	}
	return netip.AddrPort{}, EINVAL
}
