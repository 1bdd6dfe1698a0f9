package lab

import (
	"cmp"
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// repairOff leaves repair mode without a window probe (TCP_REPAIR_OFF_NO_WP of
// linux/tcp.h).
const repairOff = -1

// Sequences are the numbers of the next byte that c, an idle connection, sends,
// and of the next one that it expects: what a forged segment must hit.
func Sequences(c *net.TCPConn) (send, receive uint32, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var inner error
	err = raw.Control(func(fd uintptr) { send, receive, inner = sequences(int(fd)) })
	if err = cmp.Or(err, inner); err != nil {
		return 0, 0, fmt.Errorf("sequence numbers of %v: %w", c.LocalAddr(), err)
	}
	return send, receive, nil
}

func sequences(fd int) (send, receive uint32, err error) {
	if err := unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_REPAIR, 1); err != nil {
		return 0, 0, fmt.Errorf("enter repair mode: %w", err)
	}
	defer func() {
		err = cmp.Or(err, unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_REPAIR, repairOff))
	}()
	for _, q := range []struct {
		queue int // of linux/tcp.h's TCP_RECV_QUEUE and TCP_SEND_QUEUE
		seq   *uint32
	}{{1, &receive}, {2, &send}} {
		if err := unix.SetsockoptInt(fd, unix.SOL_TCP, unix.TCP_REPAIR_QUEUE, q.queue); err != nil {
			return 0, 0, err
		}
		n, err := unix.GetsockoptInt(fd, unix.SOL_TCP, unix.TCP_QUEUE_SEQ)
		if err != nil {
			return 0, 0, err
		}
		*q.seq = uint32(n)
	}
	return send, receive, nil
}
