package sys

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// NewNamespace makes an empty network namespace that lives as long as something
// in it or a descriptor of it does. It waits for a thread of its own, which ends
// with the call.
func NewNamespace() (*FD, error) {
	done := make(chan newNamespace)
	go inNewNamespace(done)
	r := <-done
	return r.fd, r.err
}

type newNamespace struct {
	fd  *FD
	err error
}

// inNewNamespace leaves its thread in the new namespace; the runtime ends a thread
// with the goroutine that is locked to it. Not so the process's first one, which
// it would keep for ever, and which /proc/self speaks of: that one is passed over.
func inNewNamespace(done chan<- newNamespace) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		inner := make(chan newNamespace)
		go inNewNamespace(inner) // on another thread: this one is taken
		done <- <-inner
		runtime.UnlockOSThread()
		return
	}
	var r newNamespace
	if r.err = unix.Unshare(unix.CLONE_NEWNET); r.err == nil {
		r.fd, r.err = ThreadNamespace()
	}
	done <- r
}
