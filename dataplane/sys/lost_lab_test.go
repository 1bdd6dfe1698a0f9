package sys_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// A thread that can't leave a pod's namespace is never used again: what it made
// next would be in that pod. Here it loses the right to leave.
func TestLabLostThreadEnds(t *testing.T) {
	lab.Require(t)
	testkit.NoLeaks(t)
	fd, err := sys.NewNamespace()
	if err != nil {
		t.Fatal(err)
	}
	h, err := netns.New(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	lost := 0
	var lose func() error
	lose = func() error {
		if sys.Gettid() == os.Getpid() {
			// The runtime can't end the first thread, it parks it; while this call
			// holds that, another one runs elsewhere.
			return h.Do(lose)
		}
		lost = sys.Gettid()
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		return unix.Capset(&header, &none[0]) // of this thread alone
	}
	err = h.Do(lose)
	if !errors.Is(err, sys.EPERM) || !strings.Contains(err.Error(), "leave network namespace "+h.ID().String()) {
		t.Errorf("error %v; want one that names the namespace that could not be left", err)
	}
	path := fmt.Sprintf("/proc/self/task/%d", lost)
	testkit.Eventually(t, testkit.Wait, "the lost thread ends", func() bool {
		_, err := os.Stat(path)
		return errors.Is(err, os.ErrNotExist)
	})
}
