package sys

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TimerFD makes a timer that wakes an epoll to the nanosecond, where Poller.Wait
// rounds up to a millisecond (timerfd_create(2)).
func TimerFD(f *FD) error {
	raw, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return err
	}
	f.Set(raw)
	return nil
}

// SetTimer lets the timer f expire once, after d; at once when d is not
// positive. It takes back an earlier expiry, also one that was not read.
func SetTimer(f *FD, d time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))}
	countCall()
	if _, _, e := unix.RawSyscall6(unix.SYS_TIMERFD_SETTIME, uintptr(f.Raw()), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0); e != 0 {
		return e
	}
	return nil
}
