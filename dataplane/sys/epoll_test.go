package sys_test

import (
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

func newPoller(t *testing.T) *sys.Poller {
	t.Helper()
	p := new(sys.Poller)
	if err := p.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func TestPollerEdge(t *testing.T) {
	testkit.NoLeaks(t)
	p, f := newPoller(t), newFD(t)
	const data = 0xfedcba9876543210 // all 64 bits come back
	if err := p.Add(f, sys.Readable|sys.Edge, data); err != nil {
		t.Fatal(err)
	}
	events := make([]sys.Event, 4)
	poll := func() int {
		t.Helper()
		n, err := p.Poll(events, 0)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if poll() != 0 {
		t.Error("an event before anything happened")
	}
	sys.Signal(f)
	if poll() != 1 || events[0].Data() != data || events[0].Bits() != sys.Readable {
		t.Errorf("event is %#x with data %#x", events[0].Bits(), events[0].Data())
	}
	if poll() != 0 {
		t.Error("an edge was reported twice")
	}
	sys.Signal(f)
	if poll() != 1 {
		t.Error("a new edge was not reported")
	}
	sys.Unsignal(f)
	sys.Unsignal(f) // an empty one stays so
	if err := p.Add(f, sys.Readable, 1); err != sys.EEXIST {
		t.Errorf("added twice: %v; want EEXIST", err)
	}
}

// An open file that somebody else holds goes on being reported after close; so
// what leaves a loop open has to be removed.
func TestPollerRemove(t *testing.T) {
	testkit.NoLeaks(t)
	p, f := newPoller(t), newFD(t)
	other, err := f.Dup()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := p.Add(f, sys.Readable, 1); err != nil {
		t.Fatal(err)
	}
	sys.Signal(other)
	if err := p.Remove(f); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if n, err := p.Poll(make([]sys.Event, 1), 0); n != 0 || err != nil {
		t.Errorf("%d events, %v; want none of what was removed", n, err)
	}
	if err := p.Remove(other); err != sys.ENOENT {
		t.Errorf("remove of what is not watched: %v; want ENOENT", err)
	}
	if err := p.Add(new(sys.FD), sys.Readable, 1); err != sys.EBADF {
		t.Errorf("add of nothing: %v; want EBADF", err)
	}
}

// A wait does not end before its time: the timeout is rounded up.
func TestPollerWaitRoundsUp(t *testing.T) {
	p := newPoller(t)
	for _, d := range []time.Duration{1, time.Millisecond, 1500 * time.Microsecond} {
		for {
			start := time.Now()
			if n, err := p.Wait(make([]sys.Event, 1), d); n != 0 || err != nil {
				t.Fatalf("%d events, %v", n, err)
			}
			if time.Since(start) >= d {
				break
			}
			// A signal of the runtime may have ended it early; it does not
			// send one each time.
		}
	}
}
