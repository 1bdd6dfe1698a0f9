package apply

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// ErrHostNamespace refuses a namespace that is the host's or the caller's own.
var ErrHostNamespace = errors.New("this is the host's own network namespace, which is never programmed as a pod")

// admit returns an error unless ns can be entered and can only be a pod's:
// neither the namespace of process 1 nor the caller's.
func admit(ns *netns.Handle) error {
	if err := ns.Do(func() error { return nil }); err != nil {
		if errors.Is(err, sys.EPERM) {
			return fmt.Errorf("%w: CAP_SYS_ADMIN and CAP_NET_ADMIN are needed; run as root", err)
		}
		return err
	}
	// Of this thread, not of /proc/self: that is the first thread, which may be
	// inside some pod for another goroutine at the moment.
	own, err := netns.Current()
	if err != nil {
		return err
	}
	same := own.ID() == ns.ID()
	own.Close()
	if !same {
		same, err = isInit(ns)
		if err != nil {
			return fmt.Errorf("%v: can't tell whether it is the host's own network namespace, so it is left alone: %w", ns.ID(), err)
		}
	}
	if same {
		return fmt.Errorf("%v: %w; name the pod's", ns.ID(), ErrHostNamespace)
	}
	return nil
}

// isInit reports whether ns is the namespace of process 1.
func isInit(ns *netns.Handle) (bool, error) {
	init, err := netns.Open("/proc/1/ns/net")
	if err == nil {
		defer init.Close()
		return init.ID() == ns.ID(), nil
	}
	if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, sys.EPERM) {
		return false, err
	}
	return holdsProcess(ns, 1)
}

// holdsProcess reports whether process pid lives in ns. It makes a socket with a
// name of its own in ns and looks for it where the process lives: that list may be
// read where the link to the namespace may not, for which every capability of the
// process is needed (ptrace(2)).
func holdsProcess(ns *netns.Handle, pid int) (found bool, err error) {
	name := "@sluice-" + rand.Text()
	err = ns.Do(func() error {
		sock, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		if err != nil {
			return err
		}
		defer sock.Close()
		list, err := os.Open(fmt.Sprintf("/proc/%d/net/unix", pid))
		if err != nil {
			return err
		}
		defer list.Close()
		lines := bufio.NewScanner(list)
		for lines.Scan() {
			if strings.HasSuffix(lines.Text(), name) {
				found = true
			}
		}
		return lines.Err()
	})
	return found, err
}
