package admin

import (
	"errors"
	"fmt"
	"net"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// listen opens one port, on two addresses for localhost.
func listen(addr string, ipv4Only bool) ([]net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w; want HOST:PORT", addr, err)
	}
	network := "tcp"
	if ipv4Only {
		network = "tcp4"
	}
	if host != "localhost" {
		l, err := net.Listen(network, addr)
		if err != nil {
			return nil, err
		}
		return []net.Listener{l}, nil
	}
	v4, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", port))
	if err != nil || ipv4Only {
		return one(v4, err)
	}
	if port == "0" { // the same one on both
		_, port, _ = net.SplitHostPort(v4.Addr().String()) // a listener's address is well formed
	}
	v6, err := net.Listen("tcp6", net.JoinHostPort("::1", port))
	if err != nil {
		if noIPv6(err) {
			return one(v4, nil)
		}
		_ = v4.Close()
		return nil, err
	}
	return []net.Listener{v4, v6}, nil
}

func one(l net.Listener, err error) ([]net.Listener, error) {
	if err != nil {
		return nil, err
	}
	return []net.Listener{l}, nil
}

// noIPv6 reports a machine without IPv6 on its loopback.
func noIPv6(err error) bool {
	if _, ok := errors.AsType[*net.AddrError](err); ok {
		return true // net knows that there is none and does not try
	}
	e := sys.ErrnoOf(err)
	return e == sys.EADDRNOTAVAIL || e == sys.EAFNOSUPPORT
}
