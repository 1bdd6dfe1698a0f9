package listener

import (
	"net/netip"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// originalDst is where the client of an accepted connection wanted to go,
// whatever captured it.
//
// Behind TPROXY, and for a straight dial, that is the local address. Behind NAT
// REDIRECT the local port is the listener's, and connection tracking knows
// better. An answer of ENOENT, or the same address again, leaves the local
// address: routing tells a straight dial from a server that uses our port.
func (n *Listener) originalDst(fd *sys.FD) (netip.AddrPort, error) {
	local, err := sys.LocalAddr(fd)
	if err != nil {
		return netip.AddrPort{}, err
	}
	if local.Port() != n.opts.Port {
		return local, nil
	}
	// IPv4 connections of a dual-stack listener answer to the IPv4 option.
	if dst, err := sys.OriginalDst(fd, sys.FamilyOf(local.Addr())); err == nil {
		return dst, nil
	}
	return local, nil
}
