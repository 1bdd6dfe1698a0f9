package session_test

import (
	"encoding/binary"
	"os"
	"slices"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/session"
	"github.com/sluice-mesh/sluice/dataplane/splice"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

// descriptors are what may come with a state: two sockets, then two pipes that
// hold 5 bytes each.
func descriptors(t testing.TB) []*sys.FD {
	t.Helper()
	var all []*sys.FD
	for range 2 {
		far, near := testkit.TCPPair(t, testkit.TCPOptions{})
		far.Write([]byte("hello"))
		all = append(all, near)
	}
	for range 2 {
		far, near := testkit.TCPPair(t, testkit.TCPOptions{})
		r, w := new(sys.FD), new(sys.FD)
		if _, err := sys.Pipe(r, w, 64<<10); err != nil {
			t.Fatal(err)
		}
		far.Write([]byte("hello"))
		far.Close()
		if n, err := sys.Splice(near, w, 5); n != 5 || err != nil {
			t.Fatalf("fill a pipe: %d, %v", n, err)
		}
		near.Close()
		all = append(all, r, w)
	}
	return all
}

// openFiles counts the descriptors of the process.
func openFiles(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// state is a frozen session, made by hand.
func state(kind byte, flags byte, rest ...byte) []byte {
	b := []byte{1, kind, byte(flow.Inbound), flags}
	b = binary.AppendUvarint(b, 7)
	b = binary.AppendUvarint(b, 1e9)
	b = flow.AppendAddr(b, tuple.Client)
	b = flow.AppendAddr(b, tuple.Dst)
	b = flow.AppendAddr(b, tuple.Dst)
	b = flow.AppendAddr(b, tuple.Client)
	return append(b, rest...)
}

// FuzzThaw goes on with flows from states that may be anything: whatever they
// are, nothing crashes, and nothing of them is left after the end.
func FuzzThaw(f *testing.F) {
	socket := func(side, flags byte, held string) []byte {
		return flow.AppendBytes([]byte{1, side, flags}, []byte(held))
	}
	client, server := socket(0, 0, ""), socket(1, 0, "")
	for _, seed := range []struct {
		state []byte
		fds   uint8
	}{
		{state(2, 5, slices.Concat([]byte{100}, client, server)...), 2},                                             // dialing
		{state(4, 5, slices.Concat([]byte{1}, client, server, []byte{0, 1, 0, 1, 0, 1, 0, 1})...), 2},               // relaying
		{state(4, 5, slices.Concat([]byte{1}, client, server, []byte{7, 9, 9, 1, 5, 5, 9, 9, 1, 5})...), 6},         // bytes in both pipes
		{state(4, 5, slices.Concat([]byte{1}, socket(0, 1, "held"), server, []byte{0, 1, 0, 1, 2, 1, 0, 1})...), 2}, // held, FIN behind
		{state(4, 5, slices.Concat([]byte{1}, client, server, []byte{4, 1, 0, 1, 200, 1, 0, 1, 0, 1})...), 4},       // more than the pipe holds
		{nil, 0},
	} {
		f.Add(seed.state, seed.fds)
	}
	// No pipe is kept, so that descriptors can be counted.
	b := newBare(f, loop.Config{Pipes: splice.Config{Pipes: -1}})
	for _, up := range []bool{true, false} { // and what real flows are written as
		b.adopt(f, up)
		real := b.freeze(f, b.loops[0])
		f.Add(real.State, uint8(len(real.FDs)))
		real.Close()
	}
	f.Fuzz(func(t *testing.T, in []byte, n uint8) {
		before := openFiles(t)
		all := descriptors(t)
		with := all[:int(n)%(len(all)+1)]
		for _, fd := range all[len(with):] {
			fd.Close()
		}
		var fault error
		b.pod.Thaw(&session.Frozen{UID: "bare", State: in, FDs: with}, b.loops[1], func(err error) { fault = err })
		for range 3 { // home, its own loop, and what the first events bring
			onloop.Do(t, b.loops[0], func() {})
			onloop.Do(t, b.loops[1], func() {})
		}
		if fault != nil && fault.Error() == "" {
			t.Error("refused without a reason")
		}
		b.checkEmpty(t)
		for i, fd := range with {
			if fd.Valid() {
				t.Errorf("descriptor %d is not taken", i)
			}
		}
		const far = 2 // those of the test are closed at its end
		if after := openFiles(t); after != before+far {
			t.Errorf("%d descriptors are open; want %d", after, before+far)
		}
	})
}
