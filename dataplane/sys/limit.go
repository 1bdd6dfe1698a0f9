package sys

import "golang.org/x/sys/unix"

// RaiseFileLimit lifts the soft limit of descriptors to the hard one and
// reports both as they were.
func RaiseFileLimit() (soft, hard uint64, err error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, 0, err
	}
	soft, hard = l.Cur, l.Max
	l.Cur = l.Max
	return soft, hard, unix.Setrlimit(unix.RLIMIT_NOFILE, &l)
}

// SetFileLimit sets the soft limit of descriptors of the whole process.
func SetFileLimit(soft uint64) error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return err
	}
	l.Cur = soft
	return unix.Setrlimit(unix.RLIMIT_NOFILE, &l)
}
