package lab

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// A Socket says how a socket is made. The zero value makes an ordinary one.
type Socket struct {
	Local       netip.AddrPort // where a dialling one is bound first
	ReuseAddr   bool
	ReusePort   bool
	Transparent bool // IP_TRANSPARENT and IPV6_TRANSPARENT
	NoPort      bool // IP_BIND_ADDRESS_NO_PORT: connect chooses the port
	Mark        int  // SO_MARK; 0 leaves it alone
	RcvBuf      int  // SO_RCVBUF, set before the window is announced; 0 leaves it alone
	SndBuf      int
	Device      string // SO_BINDTODEVICE
	Backlog     int    // of a listener; 0 means the kernel's limit
}

// Listen makes a listening socket inside the namespace. On [::] it serves both
// families where IPv6 is on.
func (s *Space) Listen(at netip.AddrPort, how Socket) (*net.TCPListener, error) {
	cfg := net.ListenConfig{Control: how.control, KeepAlive: -1}
	cfg.SetMultipathTCP(false) // since Go 1.24 on by default; then the socket is another kind
	var ln net.Listener
	err := s.Do(func() (err error) {
		ln, err = cfg.Listen(context.Background(), network(at), at.String())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	tcp := ln.(*net.TCPListener)
	if how.Backlog > 0 {
		if err := setBacklog(tcp, how.Backlog); err != nil {
			tcp.Close()
			return nil, fmt.Errorf("%s: backlog of %v: %w", s.Name, at, err)
		}
	}
	return tcp, nil
}

// Dial connects from inside the namespace. It returns when the connection is up,
// has failed, or ctx has ended.
func (s *Space) Dial(ctx context.Context, to netip.AddrPort, how Socket) (*net.TCPConn, error) {
	d := net.Dialer{Control: how.control, KeepAlive: -1}
	if how.Local.Addr().IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(how.Local)
	}
	var conn net.Conn
	// The dialler's one socket is made on this thread: the address is literal,
	// and there is only one.
	err := s.Do(func() (err error) {
		conn, err = d.DialContext(ctx, network(to), to.String())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	return conn.(*net.TCPConn), nil
}

// ListenUDP makes a UDP socket inside the namespace.
func (s *Space) ListenUDP(at netip.AddrPort, how Socket) (*net.UDPConn, error) {
	cfg := net.ListenConfig{Control: how.control}
	var conn net.PacketConn
	err := s.Do(func() (err error) {
		conn, err = cfg.ListenPacket(context.Background(), "udp"+network(at)[len("tcp"):], at.String())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	return conn.(*net.UDPConn), nil
}

// network is what package net calls the family: on [::] both.
func network(a netip.AddrPort) string {
	switch {
	case a.Addr().Is4():
		return "tcp4"
	case a.Addr() == netip.IPv6Unspecified():
		return "tcp"
	}
	return "tcp6"
}

// control sets the options between socket and bind.
func (how Socket) control(network, _ string, raw syscall.RawConn) error {
	var err error
	if cerr := raw.Control(func(fd uintptr) { err = how.set(int(fd), network[len(network)-1] == '6') }); cerr != nil {
		return cerr
	}
	return err
}

func (how Socket) set(fd int, v6 bool) error {
	for _, o := range []struct {
		name       string
		want       bool
		level, opt int
		value      int
	}{
		{"SO_REUSEADDR", how.ReuseAddr, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1},
		{"SO_REUSEPORT", how.ReusePort, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1},
		{"SO_MARK", how.Mark != 0, unix.SOL_SOCKET, unix.SO_MARK, how.Mark},
		{"SO_RCVBUF", how.RcvBuf != 0, unix.SOL_SOCKET, unix.SO_RCVBUF, how.RcvBuf},
		{"SO_SNDBUF", how.SndBuf != 0, unix.SOL_SOCKET, unix.SO_SNDBUF, how.SndBuf},
		{"IP_TRANSPARENT", how.Transparent, unix.SOL_IP, unix.IP_TRANSPARENT, 1},
		{"IPV6_TRANSPARENT", how.Transparent && v6, unix.SOL_IPV6, unix.IPV6_TRANSPARENT, 1},
		{"IP_BIND_ADDRESS_NO_PORT", how.NoPort, unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1},
	} {
		if !o.want {
			continue
		}
		if err := unix.SetsockoptInt(fd, o.level, o.opt, o.value); err != nil {
			return fmt.Errorf("set %s: %w", o.name, err)
		}
	}
	if how.Device != "" {
		if err := unix.BindToDevice(fd, how.Device); err != nil {
			return fmt.Errorf("bind to device %s: %w", how.Device, err)
		}
	}
	return nil
}

// setBacklog listens again, which sets a new length of the queue (listen(2)).
func setBacklog(ln *net.TCPListener, n int) error {
	raw, err := ln.SyscallConn()
	if err != nil {
		return err
	}
	var lerr error
	err = raw.Control(func(fd uintptr) { lerr = unix.Listen(int(fd), n) })
	return cmp.Or(lerr, err)
}
