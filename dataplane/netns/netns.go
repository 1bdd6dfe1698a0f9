// Package netns runs a function, or makes a socket, inside a network namespace.
//
// Data enters as a namespace descriptor; Do runs a function on a thread that
// has entered it. Owns: the descriptor of each Handle, until Close. Threads: Do
// may be called from any goroutine but a loop's, which enters by itself because
// it must not wait for another thread.
package netns

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// A Handle owns the descriptor of one network namespace. The namespace lives at
// least as long as the Handle.
type Handle struct {
	fd *sys.FD
	id sys.NamespaceID
}

// New takes fd, the descriptor of a network namespace.
func New(fd *sys.FD) (*Handle, error) {
	if err := sys.CheckNamespace(fd); err != nil {
		fd.Close()
		return nil, fmt.Errorf("descriptor is not a network namespace: %w", err)
	}
	id, err := sys.NamespaceOf(fd)
	if err != nil {
		fd.Close()
		return nil, fmt.Errorf("stat of a network namespace: %w", err)
	}
	return &Handle{fd: fd, id: id}, nil
}

// Open opens the namespace at path, for example /run/netns/NAME.
func Open(path string) (*Handle, error) {
	fd, err := sys.OpenNamespace(path)
	if err != nil {
		return nil, fmt.Errorf("network namespace %s: %w", path, err)
	}
	return New(fd)
}

// Current opens the namespace of the calling thread.
func Current() (*Handle, error) {
	fd, err := sys.ThreadNamespace()
	if err != nil {
		return nil, fmt.Errorf("network namespace of this thread: %w", err)
	}
	return New(fd)
}

// ID identifies the namespace by device and inode.
func (h *Handle) ID() sys.NamespaceID { return h.id }

// FD lends the namespace's descriptor.
func (h *Handle) FD() *sys.FD { return h.fd }

// Close gives the descriptor back. Sockets made inside live on.
func (h *Handle) Close() error { return h.fd.Close() }

// Do runs fn on a thread inside the namespace and returns fn's error. fn starts
// no goroutines: they would run elsewhere.
func (h *Handle) Do(fn func() error) error {
	done := make(chan error, 1)
	go func() { done <- h.doLocked(fn) }()
	return <-done
}

// doLocked unlocks the thread only on the path that restored it. On every other
// path the goroutine ends locked, and the runtime ends the thread.
func (h *Handle) doLocked(fn func() error) error {
	runtime.LockOSThread()
	home, err := sys.ThreadNamespace()
	if err != nil {
		return fmt.Errorf("own network namespace: %w", err)
	}
	defer home.Close()
	if err := sys.Setns(h.fd); err != nil {
		return fmt.Errorf("enter network namespace %v: %w", h.id, err)
	}
	err = fn()
	if back := sys.Setns(home); back != nil {
		return errors.Join(err, fmt.Errorf("leave network namespace %v: %w", h.id, back))
	}
	runtime.UnlockOSThread()
	return err
}
