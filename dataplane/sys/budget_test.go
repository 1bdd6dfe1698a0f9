package sys_test

import (
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// What a flow calls allocates nothing.
func TestCallBudget(t *testing.T) {
	far, near := testkit.TCPPair(t, testkit.TCPOptions{})
	l, addr := listen(t, "127.0.0.1:0")
	p := newPoller(t)
	var (
		v       sys.Vec
		f, r, w sys.FD
		events  [4]sys.Event
	)
	defer r.Close()
	defer w.Close()
	if _, err := sys.Pipe(&r, &w, 64<<10); err != nil {
		t.Fatal(err)
	}
	buf, bufs := make([]byte, 16), [][]byte{make([]byte, 8), make([]byte, 8)}
	for _, tt := range []struct {
		name string
		fn   func()
	}{
		{"Send and Read", func() { sys.Send(near, buf); far.Read(buf); far.Write(buf); sys.Read(near, buf) }},
		{"Writev and Readv", func() { v.Writev(near, bufs); far.Read(buf); far.Write(buf); v.Readv(near, bufs) }},
		{"Splice", func() {
			far.Write(buf)
			sys.Splice(near, &w, 64<<10)
			sys.Splice(&r, near, 16)
			far.Read(buf)
		}},
		{"Socket, Bind, Connect, Accept, LocalAddr, Reset", func() {
			sys.Socket(&f, sys.IPv4)
			sys.Connect(&f, addr)
			sys.LocalAddr(&f)
			sys.SocketError(&f)
			sys.Reset(&f)
			sys.Accept(l, &f)
			sys.Reset(&f)
		}},
		{"Poller", func() { p.Add(near, sys.Stream, 1); p.Poll(events[:], 0); p.Remove(near) }},
	} {
		if got := testing.AllocsPerRun(100, tt.fn); got > 0 {
			t.Errorf("%s: %v allocations; budget 0", tt.name, got)
		}
	}
}
