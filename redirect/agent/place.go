package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// A place says where a network namespace is found again, and how to tell that it
// is still the same one.
type place struct {
	Path string `json:"path"`
	Dev  uint64 `json:"dev"`
	Ino  uint64 `json:"ino"`
	// Cookie is a number that the kernel gives to no other namespace until it is
	// started again; inode numbers it gives again at once. 0 before Linux 5.14.
	Cookie uint64 `json:"cookie,omitempty"`
	// Boot is the kernel's boot_id: no namespace outlives a start of the machine,
	// but its numbers come again.
	Boot string `json:"boot"`
}

func (p place) id() sys.NamespaceID { return sys.NamespaceID{Dev: p.Dev, Ino: p.Ino} }

func (p place) String() string { return fmt.Sprintf("%s (%v)", p.Path, p.id()) }

// errDead is the error of a namespace that can't be found any more: no name and
// no process holds it.
var errDead = errors.New("network namespace is gone")

// placeOf finds a path for ns: the one that was said, if it is one, else a name
// below /run/netns, else one of a process.
func placeOf(ns *netns.Handle, said string) (place, error) {
	boot, err := bootID()
	if err != nil {
		return place{}, err
	}
	p := place{Dev: ns.ID().Dev, Ino: ns.ID().Ino, Boot: boot}
	err = ns.Do(func() (err error) {
		p.Cookie, err = sys.NamespaceCookie()
		return err
	})
	switch {
	case errors.Is(err, sys.EPERM):
		return place{}, fmt.Errorf("%w: the agent needs CAP_SYS_ADMIN and CAP_NET_ADMIN; run it as root", err)
	case err != nil && !errors.Is(err, sys.ErrUnsupported):
		return place{}, fmt.Errorf("number of %v: %w", ns.ID(), err)
	}
	for path := range paths(said, ns.ID()) {
		if h, err := netns.Open(path); err == nil {
			same := h.ID() == ns.ID()
			h.Close()
			if same {
				p.Path = path
				return p, nil
			}
		}
	}
	return place{}, fmt.Errorf("%v: neither a name below /run/netns nor a process of this machine leads to it: %w; it could not be found again when the agent is started anew: give it a name", ns.ID(), errDead)
}

// open finds the namespace again, at its path or at another one, which is in the
// place that is returned. errDead when there is none; any other error when it
// can't be told.
func (p place) open() (*netns.Handle, place, error) {
	boot, err := bootID()
	if err != nil {
		return nil, p, err
	}
	if boot != p.Boot {
		return nil, p, fmt.Errorf("%v: the machine was started anew: %w", p, errDead)
	}
	var doubt error
	for path := range paths(p.Path, p.id()) {
		h, err := netns.Open(path)
		if err != nil {
			if path == p.Path && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, sys.EINVAL) {
				doubt = err
			}
			continue
		}
		same, err := p.is(h)
		if same {
			p.Path = path
			return h, p, nil
		}
		h.Close()
		if err != nil {
			doubt = err
		}
	}
	return nil, p, fmt.Errorf("%v: %w", p, cmp.Or(doubt, errDead))
}

// is reports whether h is the namespace of p and not a later one with its number.
func (p place) is(h *netns.Handle) (bool, error) {
	if h.ID() != p.id() {
		return false, nil
	}
	if p.Cookie == 0 {
		return true, nil
	}
	var cookie uint64
	err := h.Do(func() (err error) {
		cookie, err = sys.NamespaceCookie()
		return err
	})
	return err == nil && cookie == p.Cookie, err
}

func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

// paths yields the paths at which the namespace may be found. Processes are gone
// through only if it is found nowhere before.
func paths(said string, id sys.NamespaceID) iter.Seq[string] {
	return func(yield func(string) bool) {
		if said != "" && !yield(said) {
			return
		}
		names, _ := filepath.Glob("/run/netns/*")
		for _, path := range names {
			if path != said && !yield(path) {
				return
			}
		}
		entries, err := os.ReadDir("/proc")
		if err != nil {
			return
		}
		var pids []int
		for _, e := range entries {
			if pid, err := strconv.Atoi(e.Name()); err == nil {
				pids = append(pids, pid)
			}
		}
		slices.Sort(pids)
		want := fmt.Sprintf("net:[%d]", id.Ino) // the link's text tells without opening it
		for _, pid := range pids {
			path := fmt.Sprintf("/proc/%d/ns/net", pid)
			if text, err := os.Readlink(path); err == nil && text == want && path != said && !yield(path) {
				return
			}
		}
	}
}
