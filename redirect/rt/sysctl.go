package rt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/redirect"
)

// ErrNoSysctl is wrapped when the kernel has no value of that name.
var ErrNoSysctl = errors.New("no such sysctl")

// Sysctl reads the value that name has in ns.
func Sysctl(ns *netns.Handle, name string) (value string, err error) {
	err = ns.Do(func() error {
		b, err := os.ReadFile(sysctlPath(name))
		value = strings.TrimSpace(string(b))
		return err
	})
	return value, sysctlFault(ns, "read", name, err)
}

// SetSysctl writes name in ns.
func SetSysctl(ns *netns.Handle, name, value string) error {
	err := ns.Do(func() error {
		f, err := os.OpenFile(sysctlPath(name), os.O_WRONLY, 0) // never creates
		if err != nil {
			return err
		}
		_, err = f.WriteString(value)
		return errors.Join(err, f.Close())
	})
	return sysctlFault(ns, "set", name, err)
}

// HasFamily reports whether f is there and switched on for ns's lo: without it
// lo takes no route of that family.
func HasFamily(ns *netns.Handle, f redirect.Family) (bool, error) {
	if f == redirect.IPv4 {
		return true, nil
	}
	off, err := Sysctl(ns, "net.ipv6.conf.lo.disable_ipv6")
	if errors.Is(err, ErrNoSysctl) {
		return false, nil
	}
	return off == "0", err
}

// sysctlPath is the file of a dotted name. The kernel shows below /proc/sys/net
// the values of the namespace of the thread that opens it.
func sysctlPath(name string) string {
	return filepath.Join("/proc/sys", strings.ReplaceAll(name, ".", "/"))
}

func sysctlFault(ns *netns.Handle, verb, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s sysctl %s in %v: %w: %w", verb, name, ns.ID(), ErrNoSysctl, err)
	}
	return fmt.Errorf("%s sysctl %s in %v: %w", verb, name, ns.ID(), err)
}
