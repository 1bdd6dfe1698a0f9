package netns_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// newNamespace makes an empty namespace.
func newNamespace(t *testing.T) *netns.Handle {
	t.Helper()
	lab.Require(t)
	fd, err := sys.NewNamespace()
	if err != nil {
		t.Fatal(err)
	}
	h, err := netns.New(fd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// here identifies the namespace of the calling thread.
func here(t *testing.T) sys.NamespaceID {
	t.Helper()
	h, err := netns.Current()
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	return h.ID()
}

func TestLabDo(t *testing.T) {
	testkit.NoLeaks(t)
	h := newNamespace(t)
	home := here(t)
	if home == h.ID() {
		t.Fatal("the new namespace is the old one")
	}
	refused := errors.New("refused")
	for _, want := range []error{nil, refused} {
		var inside sys.NamespaceID
		err := h.Do(func() error {
			inside = here(t)
			return want
		})
		if !errors.Is(err, want) || inside != h.ID() {
			t.Errorf("ran in %v with error %v; want %v, %v", inside, err, h.ID(), want)
		}
	}
	if got := here(t); got != home {
		t.Errorf("the caller is in %v now; want %v", got, home)
	}
}

// Many at once, and no thread of the process is left in another namespace.
func TestLabDoAtOnce(t *testing.T) {
	testkit.NoLeaks(t)
	a, b := newNamespace(t), newNamespace(t)
	home := here(t)
	done := make(chan error)
	const users = 16
	for i := range users {
		h := a
		if i%2 == 0 {
			h = b
		}
		go func() {
			var err error
			for range 50 {
				err = errors.Join(err, h.Do(func() error {
					in, err := netns.Current()
					if err != nil {
						return err
					}
					defer in.Close()
					if in.ID() != h.ID() {
						return errors.New("ran in the wrong namespace")
					}
					return nil
				}))
			}
			done <- err
		}()
	}
	for range users {
		if err := testkit.Receive(t, testkit.Wait, "a user", done); err != nil {
			t.Error(err)
		}
	}
	for tid, ns := range threads(t) {
		if ns != home {
			t.Errorf("thread %s of process %d is in %v; want %v", tid, os.Getpid(), ns, home)
		}
	}
}

// threads lists the namespace of each thread of the process.
func threads(t *testing.T) map[string]sys.NamespaceID {
	t.Helper()
	all, err := filepath.Glob("/proc/self/task/*/ns/net")
	if err != nil || len(all) == 0 {
		t.Fatalf("no threads: %v", err)
	}
	ids := map[string]sys.NamespaceID{}
	for _, path := range all {
		h, err := netns.Open(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // it has ended
		}
		if err != nil {
			t.Fatal(err)
		}
		ids[path] = h.ID()
		h.Close()
	}
	return ids
}

// A socket keeps the namespace that it was made in, also when the handle is gone.
func TestLabSocketOutlivesHandle(t *testing.T) {
	testkit.NoLeaks(t)
	h := newNamespace(t)
	var f sys.FD
	defer f.Close()
	if err := h.Do(func() error { return sys.Socket(&f, sys.IPv4) }); err != nil {
		t.Fatal(err)
	}
	h.Close()
	// lo is down there, so nothing can be reached.
	if err := sys.Connect(&f, netip.MustParseAddrPort("127.0.0.1:1")); !errors.Is(err, sys.ENETUNREACH) {
		t.Errorf("connect: %v; want ENETUNREACH, for the socket belongs to an empty namespace", err)
	}
	if err := h.Do(func() error { return nil }); !errors.Is(err, sys.EBADF) {
		t.Errorf("Do with a closed handle: %v; want EBADF", err)
	}
}

func TestNotANamespace(t *testing.T) {
	testkit.NoLeaks(t)
	if h, err := netns.Open("/proc/self/ns/mnt"); !errors.Is(err, sys.EINVAL) || h != nil {
		t.Errorf("a mount namespace: %v, %v; want EINVAL", h, err)
	}
	if h, err := netns.Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) || h != nil {
		t.Errorf("no such file: %v, %v; want ENOENT", h, err)
	}
	_, near := testkit.TCPPair(t, testkit.TCPOptions{})
	if h, err := netns.New(near); !errors.Is(err, sys.EINVAL) || h != nil || near.Valid() {
		t.Errorf("a socket: %v, %v, still open: %v; want EINVAL and closed", h, err, near.Valid())
	}
}

// Making a namespace leaves no thread in it, not even the first one of the
// process, whose namespace /proc/self/ns/net names.
func TestLabNewNamespaceLeavesNoThread(t *testing.T) {
	testkit.NoLeaks(t)
	home := here(t)
	for range 20 {
		newNamespace(t)
	}
	testkit.Eventually(t, testkit.Wait, "every thread is at home", func() bool {
		for _, ns := range threads(t) {
			if ns != home {
				return false
			}
		}
		return true
	})
}
