package sys

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
)

// ListenPackets listens on an AF_UNIX SOCK_SEQPACKET socket at path that only
// this user may connect to. A socket that a process which crashed left there is
// removed; one that somebody listens on, or a file of another kind, is in the way.
// Closing the listener removes the socket's file.
func ListenPackets(path string) (*net.UnixListener, error) {
	switch fi, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case fi.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s is there and is no socket; remove it or name another path", path)
	default:
		c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Net: "unixpacket", Name: path})
		if err == nil {
			c.Close()
		}
		if err == nil || errors.Is(err, EAGAIN) { // EAGAIN: its queue is full
			return nil, fmt.Errorf("%s: another process listens there; end it or name another path", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove the old socket: %w", err)
		}
	}
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: path})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
