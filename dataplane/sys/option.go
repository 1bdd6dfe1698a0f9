package sys

import (
	"time"

	"golang.org/x/sys/unix"
)

// Mark is the packet mark of every socket of the proxy in a pod.
const Mark = 0x539

// SetMark sets SO_MARK; it needs CAP_NET_ADMIN.
func SetMark(f *FD, mark uint32) error {
	return setInt(f, unix.SOL_SOCKET, unix.SO_MARK, int32(mark))
}

// SetTransparent lets f use addresses that are not the host's (ip(7)). One bit of
// the socket stands behind both options, so the IPv6 one covers IPv4 on a dual
// stack socket (do_ipv6_setsockopt, net/ipv6/ipv6_sockglue.c).
func SetTransparent(f *FD, family Family) error {
	if family == IPv6 {
		return setInt(f, unix.SOL_IPV6, unix.IPV6_TRANSPARENT, 1)
	}
	return setInt(f, unix.SOL_IP, unix.IP_TRANSPARENT, 1)
}

// SetReuseAddr sets SO_REUSEADDR.
func SetReuseAddr(f *FD) error { return setInt(f, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) }

// SetReusePort sets SO_REUSEPORT, so that two generations of the proxy can listen.
func SetReusePort(f *FD) error { return setInt(f, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) }

// SetV6Only keeps IPv4 off an IPv6 listener, or lets it in.
func SetV6Only(f *FD, only bool) error {
	v := int32(0)
	if only {
		v = 1
	}
	return setInt(f, unix.SOL_IPV6, unix.IPV6_V6ONLY, v)
}

// SetBindNoPort defers the choice of a source port from bind to connect, where
// the kernel knows the whole tuple (IP_BIND_ADDRESS_NO_PORT, Linux 4.2).
func SetBindNoPort(f *FD) error { return setInt(f, unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1) }

// SetNoDelay sends small messages at once. Accepted sockets inherit it.
func SetNoDelay(f *FD) error { return setInt(f, unix.SOL_TCP, unix.TCP_NODELAY, 1) }

// Keepalive is how the kernel finds out that a silent peer is gone.
type Keepalive struct {
	Idle, Interval time.Duration // whole seconds
	Count          int
}

// SetKeepalive sets keepalive probes. Accepted sockets inherit them.
func SetKeepalive(f *FD, k Keepalive) error {
	if err := setInt(f, unix.SOL_TCP, unix.TCP_KEEPIDLE, int32(k.Idle/time.Second)); err != nil {
		return err
	}
	if err := setInt(f, unix.SOL_TCP, unix.TCP_KEEPINTVL, int32(k.Interval/time.Second)); err != nil {
		return err
	}
	if err := setInt(f, unix.SOL_TCP, unix.TCP_KEEPCNT, int32(k.Count)); err != nil {
		return err
	}
	return setInt(f, unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
}

// SetUserTimeout bounds how long sent data may stay unacknowledged (tcp(7)).
func SetUserTimeout(f *FD, d time.Duration) error {
	return setInt(f, unix.SOL_TCP, unix.TCP_USER_TIMEOUT, int32(d/time.Millisecond))
}

// SetCongestion chooses a congestion control by name; accepted sockets inherit
// it. ENOENT or EPERM mean that this namespace may not use it.
func SetCongestion(f *FD, name string) error {
	countCall()
	return unix.SetsockoptString(f.Raw(), unix.IPPROTO_TCP, unix.TCP_CONGESTION, name)
}

// Congestion is the name of f's congestion control.
func Congestion(f *FD) (string, error) {
	return unix.GetsockoptString(f.Raw(), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
}

// UnsentBytes is what was written to f and not yet acknowledged by the peer
// (SIOCOUTQ, tcp(7)).
func UnsentBytes(f *FD) (int, error) {
	return unix.IoctlGetInt(f.Raw(), unix.TIOCOUTQ)
}
