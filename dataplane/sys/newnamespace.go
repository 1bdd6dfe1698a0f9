package sys

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// NewNamespace makes an empty network namespace that lives as long as something
// in it or a descriptor of it does. It waits for a thread of its own, which ends
// with the call.
func NewNamespace() (*FD, error) {
	type result struct {
		fd  *FD
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // for good: the runtime ends the thread with the goroutine
		var r result
		if r.err = unix.Unshare(unix.CLONE_NEWNET); r.err == nil {
			r.fd, r.err = ThreadNamespace()
		}
		done <- r
	}()
	r := <-done
	return r.fd, r.err
}
