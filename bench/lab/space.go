package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// netnsDir is where iproute2 keeps named namespaces, and so do we.
const netnsDir = "/run/netns"

type handle = netns.Handle

// A Space is one network namespace of a lab.
type Space struct {
	Name  string // within the lab
	Netns string // the name for `ip netns exec`
	Path  string // /run/netns/Netns
	Dir   string // for files of what runs here, such as unix sockets
	Addrs        // on eth0

	lab    *Lab
	handle *handle
}

// Handle lends the namespace's handle.
func (s *Space) Handle() *netns.Handle { return s.handle }

// Do runs fn on a thread inside the namespace. fn starts no goroutines.
func (s *Space) Do(fn func() error) error { return s.handle.Do(fn) }

// Sysctl reads a setting, such as "net.ipv4.ip_forward".
func (s *Space) Sysctl(name string) (value string, err error) {
	err = s.Do(func() error {
		text, err := os.ReadFile(sysctlPath(name))
		value = strings.TrimSpace(string(text))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read %s in %s: %w", name, s.Name, err)
	}
	return value, nil
}

// SetSysctl writes a setting.
func (s *Space) SetSysctl(name, value string) error {
	err := s.Do(func() error { return os.WriteFile(sysctlPath(name), []byte(value), 0) })
	if err != nil {
		return fmt.Errorf("set %s to %s in %s: %w", name, value, s.Name, err)
	}
	return nil
}

// sysctlPath is below /proc/sys, whose net part is that of the calling thread.
func sysctlPath(name string) string {
	return "/proc/sys/" + strings.ReplaceAll(name, ".", "/")
}

// openNamespace opens a namespace by its name.
func openNamespace(name string) (*handle, error) {
	return netns.Open(filepath.Join(netnsDir, name))
}

// createNamespace makes a network namespace and gives it a name, as `ip netns
// add` does.
func createNamespace(name string) (*handle, error) {
	type made struct {
		h   *handle
		err error
	}
	done := make(chan made, 1)
	go func() {
		h, err := createLocked(filepath.Join(netnsDir, name))
		done <- made{h, err}
	}()
	m := <-done
	if m.err != nil {
		return nil, fmt.Errorf("create network namespace %s: %w", name, m.err)
	}
	return m.h, nil
}

// createLocked unlocks its thread only when that is back home; otherwise the
// goroutine ends locked, and the thread with it.
func createLocked(path string) (_ *handle, err error) {
	runtime.LockOSThread()
	home, err := sys.ThreadNamespace()
	if err != nil {
		return nil, err
	}
	defer home.Close()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("unshare: %w", err)
	}
	h, err := nameNamespace(path)
	if back := sys.Setns(home); back != nil {
		if h != nil {
			h.Close()
		}
		return nil, fmt.Errorf("leave the new namespace: %w", back)
	}
	runtime.UnlockOSThread()
	return h, err
}

// nameNamespace binds the calling thread's namespace to path.
func nameNamespace(path string) (*handle, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return nil, err
	}
	f.Close()
	own := fmt.Sprintf("/proc/self/task/%d/ns/net", sys.Gettid())
	if err := unix.Mount(own, path, "", unix.MS_BIND, ""); err != nil {
		os.Remove(path)
		return nil, fmt.Errorf("bind %s to %s: %w", own, path, err)
	}
	return netns.Current()
}

// removeNamespace takes the name away; the namespace goes when nothing is left
// that uses it.
func removeNamespace(name string) error {
	path := filepath.Join(netnsDir, name)
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && err != unix.EINVAL && err != unix.ENOENT {
		return fmt.Errorf("unmount %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}

// prepareNetnsDir makes the directory a shared mount, as iproute2 does: what is
// unmounted here is then unmounted for processes with a mount namespace of their
// own too, and does not live on there.
func prepareNetnsDir() error {
	if err := os.MkdirAll(netnsDir, 0o755); err != nil {
		return err
	}
	err := unix.Mount("", netnsDir, "none", unix.MS_SHARED|unix.MS_REC, "")
	if err == unix.EINVAL { // not a mount point yet
		if err := unix.Mount(netnsDir, netnsDir, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("bind %s: %w", netnsDir, err)
		}
		err = unix.Mount("", netnsDir, "none", unix.MS_SHARED|unix.MS_REC, "")
	}
	if err != nil {
		return fmt.Errorf("share %s: %w", netnsDir, err)
	}
	return nil
}
