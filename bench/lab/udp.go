package lab

import (
	"context"
	"fmt"
	"net"
	"net/netip"
)

// DialUDP makes a UDP socket inside the namespace that talks to one peer, and is
// told of ICMP errors that its datagrams cause.
func (s *Space) DialUDP(to netip.AddrPort, how Socket) (*net.UDPConn, error) {
	d := net.Dialer{Control: how.control}
	if how.Local.Addr().IsValid() {
		d.LocalAddr = net.UDPAddrFromAddrPort(how.Local)
	}
	var conn net.Conn
	err := s.Do(func() (err error) {
		conn, err = d.DialContext(context.Background(), "udp"+network(to)[len("tcp"):], to.String())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	return conn.(*net.UDPConn), nil
}
