package sys

import "golang.org/x/sys/unix"

// NamespaceCookie is the number of the calling thread's network namespace. The
// kernel gives it to no other one until it is started again; inode numbers it
// gives again at once. The error wraps ErrUnsupported before Linux 5.14.
func NamespaceCookie() (uint64, error) {
	raw, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(raw)
	cookie, err := unix.GetsockoptUint64(raw, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	return cookie, unsupported(err)
}
