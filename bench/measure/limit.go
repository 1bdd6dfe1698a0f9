package measure

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// RaiseFileLimit lets this process, and those that it will start, open n
// descriptors. Beyond the hard limit it needs CAP_SYS_RESOURCE.
func RaiseFileLimit(n uint64) error {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return fmt.Errorf("read the limit of descriptors: %w", err)
	}
	if l.Cur >= n {
		return nil
	}
	want := unix.Rlimit{Cur: n, Max: max(n, l.Max)}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &want); err != nil {
		return fmt.Errorf("raise the limit of descriptors from %d to %d: %w; it needs CAP_SYS_RESOURCE, or a higher hard limit", l.Cur, n, err)
	}
	return nil
}

// FileLimit is how many descriptors this process, and what it starts, may open.
func FileLimit() (uint64, error) {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return 0, fmt.Errorf("read the limit of descriptors: %w", err)
	}
	return l.Max, nil
}
