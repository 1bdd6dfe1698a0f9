package sys

import "golang.org/x/sys/unix"

// SetBuffers fixes the sizes of f's receive and send buffers, which the kernel
// otherwise fits to the traffic; 0 leaves one alone. The kernel doubles what it
// is asked for (socket(7)). Accepted sockets inherit both.
func SetBuffers(f *FD, receive, send int) error {
	if receive > 0 {
		if err := setInt(f, unix.SOL_SOCKET, unix.SO_RCVBUF, int32(receive)); err != nil {
			return err
		}
	}
	if send > 0 {
		return setInt(f, unix.SOL_SOCKET, unix.SO_SNDBUF, int32(send))
	}
	return nil
}
