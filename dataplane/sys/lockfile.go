package sys

import "golang.org/x/sys/unix"

// LockFile makes path unless it is there and locks it for this process alone;
// EAGAIN means that another one holds it. Closing the FD unlocks.
func LockFile(path string) (*FD, error) {
	raw, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	f := NewFD(raw)
	if err := unix.Flock(raw, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
