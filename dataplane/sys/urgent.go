package sys

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// SetUrgentInline keeps urgent data in its place among the rest; without it the
// byte that was marked is left out of what is read (tcp(7), SO_OOBINLINE).
// Accepted sockets inherit it.
func SetUrgentInline(f *FD) error { return setInt(f, unix.SOL_SOCKET, unix.SO_OOBINLINE, 1) }

// SendUrgent sends p as urgent data, of which TCP marks the last byte (tcp(7),
// MSG_OOB). Telnet and FTP do that to interrupt.
func SendUrgent(f *FD, p []byte) (int, error) {
	countCall()
	n, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(f.Raw()), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
		unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT|unix.MSG_OOB, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}
