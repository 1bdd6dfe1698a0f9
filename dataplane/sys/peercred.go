package sys

import (
	"net"

	"golang.org/x/sys/unix"
)

// A Peer is the process that made the other end of a unix connection, as the
// kernel saw it then (SO_PEERCRED, unix(7)).
type Peer struct {
	PID      int
	UID, GID uint32
}

// PeerOf asks the kernel who is at the other end of c.
func PeerOf(c *net.UnixConn) (Peer, error) {
	rc, err := c.SyscallConn()
	if err != nil {
		return Peer{}, err
	}
	var cred *unix.Ucred
	var failed error
	countCall()
	if err := rc.Control(func(fd uintptr) {
		cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return Peer{}, err
	}
	if failed != nil {
		return Peer{}, failed
	}
	return Peer{PID: int(cred.Pid), UID: cred.Uid, GID: cred.Gid}, nil
}
