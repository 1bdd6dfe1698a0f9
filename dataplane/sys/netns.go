package sys

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// NamespaceID names a network namespace: two descriptors mean the same one
// when both numbers agree (namespaces(7)).
type NamespaceID struct {
	Dev, Ino uint64
}

func (id NamespaceID) String() string { return fmt.Sprintf("net:[%d:%d]", id.Dev, id.Ino) }

// Setns moves the calling thread, which must be locked, into the network
// namespace behind f.
func Setns(f *FD) error {
	countCall()
	return unix.Setns(f.Raw(), unix.CLONE_NEWNET)
}

// OpenNamespace opens the network namespace at path, such as one below
// /run/netns or /proc/PID/ns. It fails with EINVAL when path is something else.
func OpenNamespace(path string) (*FD, error) {
	raw, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := NewFD(raw)
	if err := CheckNamespace(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ThreadNamespace opens the network namespace of the calling thread.
func ThreadNamespace() (*FD, error) {
	return OpenNamespace(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
}

// CheckNamespace reports EINVAL unless f is a network namespace (ioctl_ns(2)).
func CheckNamespace(f *FD) error {
	kind, err := unix.IoctlRetInt(f.Raw(), unix.NS_GET_NSTYPE)
	if err != nil || kind != unix.CLONE_NEWNET {
		return unix.EINVAL
	}
	return nil
}

// NamespaceOf identifies the namespace behind f.
func NamespaceOf(f *FD) (NamespaceID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(f.Raw(), &st); err != nil {
		return NamespaceID{}, err
	}
	return NamespaceID{Dev: st.Dev, Ino: st.Ino}, nil
}

// Gettid is the kernel's number of the calling thread.
func Gettid() int { return unix.Gettid() }
