package sys

import (
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Socket makes a non-blocking, close-on-exec TCP socket in the thread's
// namespace and puts it into the empty f.
func Socket(f *FD, family Family) error {
	countCall()
	n, _, e := unix.RawSyscall(unix.SYS_SOCKET, uintptr(family),
		unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if e != 0 {
		return e
	}
	f.Set(int(n))
	return nil
}

// Bind binds f to ap. Port 0 leaves the port to the kernel.
func Bind(f *FD, ap netip.AddrPort) error {
	var a sockAddr
	a.set(ap)
	countCall()
	if _, _, e := unix.RawSyscall(unix.SYS_BIND, uintptr(f.Raw()), uintptr(unsafe.Pointer(&a.b)), uintptr(a.n)); e != 0 {
		return e
	}
	return nil
}

// BindAny binds f to the wildcard address of its family. On an IPv6 socket that
// is IPv4 too, unless V6Only was set.
func BindAny(f *FD, family Family, port uint16) error {
	addr := netip.IPv6Unspecified()
	if family == IPv4 {
		addr = netip.IPv4Unspecified()
	}
	return Bind(f, netip.AddrPortFrom(addr, port))
}

// Listen makes f a listener.
func Listen(f *FD, backlog int) error {
	countCall()
	return unix.Listen(f.Raw(), backlog)
}

// Connect starts a connect and does not wait for it: EINPROGRESS is the usual
// answer, after which the descriptor becomes writable.
func Connect(f *FD, ap netip.AddrPort) error {
	var a sockAddr
	a.set(ap)
	countCall()
	if _, _, e := unix.RawSyscall(unix.SYS_CONNECT, uintptr(f.Raw()), uintptr(unsafe.Pointer(&a.b)), uintptr(a.n)); e != 0 {
		return e
	}
	return nil
}

// Accept takes one connection from the listener l into the empty f. EAGAIN
// means that none is waiting.
func Accept(l *FD, f *FD) (peer netip.AddrPort, err error) {
	var a sockAddr
	a.n = uint32(len(a.b))
	countCall()
	n, _, e := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(l.Raw()), uintptr(unsafe.Pointer(&a.b)),
		uintptr(unsafe.Pointer(&a.n)), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
	if e != 0 {
		return netip.AddrPort{}, e
	}
	f.Set(int(n))
	return ParseSockAddr(a.b[:min(int(a.n), len(a.b))])
}

// LocalAddr is the address that f is bound to.
func LocalAddr(f *FD) (netip.AddrPort, error) {
	var a sockAddr
	a.n = uint32(len(a.b))
	countCall()
	if _, _, e := unix.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(f.Raw()), uintptr(unsafe.Pointer(&a.b)),
		uintptr(unsafe.Pointer(&a.n))); e != 0 {
		return netip.AddrPort{}, e
	}
	return ParseSockAddr(a.b[:min(int(a.n), len(a.b))])
}

// ip6tOriginalDst is IP6T_SO_ORIGINAL_DST of linux/netfilter_ipv6/ip6_tables.h.
const ip6tOriginalDst = 80

// OriginalDst asks connection tracking for the destination of f's connection
// before NAT. ENOENT means that there was no such entry.
func OriginalDst(f *FD, family Family) (netip.AddrPort, error) {
	level, opt := uintptr(unix.SOL_IP), uintptr(unix.SO_ORIGINAL_DST)
	if family == IPv6 {
		level, opt = unix.SOL_IPV6, ip6tOriginalDst
	}
	var a sockAddr
	a.n = uint32(len(a.b))
	countCall()
	if _, _, e := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(f.Raw()), level, opt,
		uintptr(unsafe.Pointer(&a.b)), uintptr(unsafe.Pointer(&a.n)), 0); e != 0 {
		return netip.AddrPort{}, e
	}
	return ParseSockAddr(a.b[:min(int(a.n), len(a.b))])
}

// ShutdownWrite sends FIN behind what was written.
func ShutdownWrite(f *FD) error {
	countCall()
	if _, _, e := unix.RawSyscall(unix.SYS_SHUTDOWN, uintptr(f.Raw()), unix.SHUT_WR, 0); e != 0 {
		return e
	}
	return nil
}

// SocketError takes the pending error of f; nil when there is none.
func SocketError(f *FD) error {
	v, err := getInt(f, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return err
	}
	if v != 0 {
		return Errno(v)
	}
	return nil
}

// Reset closes f with a reset instead of a FIN (socket(7), SO_LINGER).
func Reset(f *FD) {
	if !f.Valid() {
		return
	}
	linger := unix.Linger{Onoff: 1}
	countCall()
	_, _, _ = unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(f.Raw()), unix.SOL_SOCKET, unix.SO_LINGER,
		uintptr(unsafe.Pointer(&linger)), unsafe.Sizeof(linger), 0) // it cannot fail on a TCP socket; close follows in any case
	_ = f.Close()
}

func setInt(f *FD, level, opt uintptr, v int32) error {
	countCall()
	if _, _, e := unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(f.Raw()), level, opt,
		uintptr(unsafe.Pointer(&v)), unsafe.Sizeof(v), 0); e != 0 {
		return e
	}
	return nil
}

func getInt(f *FD, level, opt uintptr) (int32, error) {
	var v int32
	n := uint32(unsafe.Sizeof(v))
	countCall()
	if _, _, e := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(f.Raw()), level, opt,
		uintptr(unsafe.Pointer(&v)), uintptr(unsafe.Pointer(&n)), 0); e != 0 {
		return 0, e
	}
	return v, nil
}
