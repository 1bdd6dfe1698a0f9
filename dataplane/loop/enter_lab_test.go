package loop_test

import (
	"errors"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

// visitor enters a pod and panics there.
type visitor struct {
	l  *loop.Loop
	ns *sys.FD
}

func (v *visitor) Call() {
	v.l.Enter(v.ns, func() error { panic("lost in there") })
}

func (v *visitor) Panicked(any) {}

// The loop comes home from a pod whatever happens there: what it makes next
// must not be somebody else's.
func TestLabEnter(t *testing.T) {
	testkit.NoLeaks(t)
	lab.Require(t)
	fd, err := sys.NewNamespace()
	if err != nil {
		t.Fatal(err)
	}
	pod, err := netns.New(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer pod.Close()
	l := onloop.Start(t, 7, loop.Config{})
	where := func() sys.NamespaceID {
		h, err := netns.Current()
		if err != nil {
			t.Error(err)
			return sys.NamespaceID{}
		}
		defer h.Close()
		return h.ID()
	}
	home := where()
	refused := errors.New("refused")
	onloop.Do(t, l, func() {
		var inside sys.NamespaceID
		if err := l.Enter(pod.FD(), func() error { inside = where(); return refused }); err != refused || inside != pod.ID() {
			t.Errorf("ran in %v with %v; want %v with the function's error", inside, err, pod.ID())
		}
		if at := where(); at != home {
			t.Errorf("after a visit the loop is in %v; want %v", at, home)
		}
		if err := l.Enter(new(sys.FD), func() error { t.Error("ran"); return nil }); !errors.Is(err, sys.EBADF) {
			t.Errorf("entered nothing: %v; want EBADF", err)
		}
	})
	l.Post(&visitor{l, pod.FD()})
	onloop.Do(t, l, func() {
		if at := where(); at != home {
			t.Errorf("after a fault in a pod the loop is in %v; want %v", at, home)
		}
	})
}
