package sys

import (
	"errors"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// What a packet that arrives over a unix socket may be refused for.
var (
	ErrPacketTooLong = errors.New("packet is longer than the buffer")
	ErrControlCut    = errors.New("control data was truncated")
	ErrManyFDs       = errors.New("packet carries more than one descriptor")
)

// packetControl has room for two descriptors: alignment lets the kernel put two
// into a buffer meant for one, and the second must be seen to be refused.
const packetControl = 2 * 24

// SendPacket sends b as one packet over c, an AF_UNIX SOCK_SEQPACKET connection,
// with a copy of each of fds. It waits until the write deadline of c.
func SendPacket(c *net.UnixConn, b []byte, fds ...*FD) error {
	if len(b) == 0 {
		return EINVAL // the peer would take it for the end of the stream
	}
	var control []byte
	if len(fds) > 0 {
		raws := make([]int, len(fds))
		for i, f := range fds {
			raws[i] = f.Raw()
		}
		control = unix.UnixRights(raws...)
	}
	countCall()
	n, _, err := c.WriteMsgUnix(b, control, nil)
	if err == nil && n != len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// ReceivePacket reads one packet from c into b, and the descriptor that came
// with it, if any; that one is close-on-exec. It waits until the read deadline
// of c. On error no descriptor is returned and each that arrived is closed. The
// end of the stream, which an empty packet looks like, is io.EOF.
func ReceivePacket(c *net.UnixConn, b []byte) (n int, fd *FD, err error) {
	var control [packetControl]byte
	countCall()
	n, used, flags, _, err := c.ReadMsgUnix(b, control[:])
	fds := receivedFDs(control[:used])
	switch {
	case errors.Is(err, io.EOF):
		err = io.EOF
	case err != nil:
	case flags&unix.MSG_TRUNC != 0:
		err = ErrPacketTooLong
	case len(fds) > 1:
		err = ErrManyFDs
	case flags&unix.MSG_CTRUNC != 0:
		err = ErrControlCut
	}
	if err != nil {
		for _, f := range fds {
			f.Close()
		}
		return 0, nil, err
	}
	if len(fds) == 1 {
		fd = fds[0]
	}
	return n, fd, nil
}

// receivedFDs owns every descriptor in control. Control messages of other kinds
// are passed over.
func receivedFDs(control []byte) []*FD {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil // the kernel wrote it: only an empty buffer ends here
	}
	var fds []*FD
	for _, m := range messages {
		raws, err := unix.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, raw := range raws {
			fds = append(fds, NewFD(raw))
		}
	}
	return fds
}
