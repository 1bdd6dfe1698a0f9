package sys_test

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// newFD owns a descriptor of something harmless.
func newFD(t *testing.T) *sys.FD {
	t.Helper()
	f := new(sys.FD)
	if err := sys.EventFD(f); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// panics returns what fn panics with, as text; "" when it does not.
func panics(fn func()) (text string) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case string:
			text = v
		default:
			text = "panic with something else than text"
		}
	}()
	fn()
	return ""
}

func TestFDOwnership(t *testing.T) {
	testkit.NoLeaks(t)
	var empty sys.FD
	if empty.Valid() || empty.Raw() != -1 || empty.Take() != -1 || empty.Close() != nil {
		t.Error("the zero FD is not empty")
	}
	f := newFD(t)
	raw := f.Raw()
	var to sys.FD
	f.MoveTo(&to)
	if f.Valid() || to.Raw() != raw {
		t.Errorf("after a move: from %d, to %d; want -1, %d", f.Raw(), to.Raw(), raw)
	}
	if err := to.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := to.Close(); err != nil {
		t.Errorf("second close: %v; want nothing to happen", err)
	}
	if _, err := unix.FcntlInt(uintptr(raw), unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("descriptor after close: %v; want EBADF", err)
	}
	first, second := newFD(t), newFD(t)
	if text := panics(func() { second.MoveTo(first) }); !strings.Contains(text, "owns a descriptor") {
		t.Errorf("a move onto an FD that is in use: %q", text)
	}
}

// Moving nothing leaves nothing behind, however often: a state that was handed
// over may name more descriptors than came with it.
func TestFDMoveOfNothing(t *testing.T) {
	for range 3 {
		var from, to sys.FD
		from.MoveTo(&to)
		if to.Valid() {
			t.Fatal("nothing became a descriptor")
		}
	}
}

func TestFDDup(t *testing.T) {
	testkit.NoLeaks(t)
	f := newFD(t)
	d, err := f.Dup()
	if err != nil {
		t.Fatal(err)
	}
	if flags, err := unix.FcntlInt(uintptr(d.Raw()), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags of the copy: %#x, %v; want close-on-exec", flags, err)
	}
	f.Close()
	sys.Signal(d) // the open file lives on
	var b [8]byte
	if n, err := sys.Read(d, b[:]); n != 8 || err != nil {
		t.Errorf("read of the copy: %d, %v", n, err)
	}
	d.Close()
	if _, err := f.Dup(); err != sys.EBADF {
		t.Errorf("copy of nothing: %v; want EBADF", err)
	}
}

func TestFDsInOrder(t *testing.T) {
	testkit.NoLeaks(t)
	a, b, c := newFD(t), newFD(t), newFD(t)
	raw := []int{a.Raw(), b.Raw()}
	fds := sys.NewFDs([]*sys.FD{a, b, c})
	for i, want := range raw {
		if got := fds.Next(); got.Raw() != want {
			t.Errorf("descriptor %d is %d; want %d", i, got.Raw(), want)
		}
	}
	fds.Close()
	if !a.Valid() || !b.Valid() || c.Valid() {
		t.Error("Close closes those that were not taken, and no others")
	}
	if f := fds.Next(); f == nil || f.Valid() {
		t.Error("after the last there is an empty one")
	}
}
