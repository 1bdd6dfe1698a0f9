package end_test

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/buf"
	"github.com/sluice-mesh/sluice/dataplane/end"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

// A witness is a peer that writes down what it is told.
type witness struct {
	s                  *end.Socket
	readable, writable int
	ended              []flow.CloseReason
	err                error
}

func (w *witness) Readable() { w.readable++ }
func (w *witness) Writable() { w.writable++ }
func (w *witness) Ended(why flow.CloseReason, err error) {
	w.ended = append(w.ended, why)
	w.err = err
	w.s.Finish(why)
}

// open registers a socket with a witness; far is the other side of its
// connection.
func open(t testing.TB, l *loop.Loop, side end.Side, opts testkit.TCPOptions) (far *net.TCPConn, s *end.Socket, w *witness) {
	t.Helper()
	far, near := testkit.TCPPair(t, opts)
	s = new(end.Socket)
	w = &witness{s: s}
	near.MoveTo(s.FD())
	onloop.Do(t, l, func() {
		if err := s.Register(l, side, w, true); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		onloop.Do(t, l, func() {
			s.Close()
			if l.Metrics.Level(metric.HeldBytes) != 0 || l.Metrics.Level(metric.HeldBlocks) != 0 || l.Blocks.Lent() != 1 {
				t.Errorf("after close %d bytes in %d blocks are held, %d blocks lent; want the loop's own",
					l.Metrics.Level(metric.HeldBytes), l.Metrics.Level(metric.HeldBlocks), l.Blocks.Lent())
			}
		})
	})
	return far, s, w
}

// A heapSink is a sink that keeps everything, and lends its room in pieces.
type heapSink struct {
	room []byte
	each int
	max  int // bytes that it takes in all
	got  []byte
}

func (h *heapSink) Room(max int) (out [][]byte) {
	if len(h.got) >= h.max {
		return nil
	}
	h.room = make([]byte, min(max, h.max-len(h.got)))
	for at := 0; at < len(h.room); at += h.each {
		out = append(out, h.room[at:min(at+h.each, len(h.room))])
	}
	return out
}
func (h *heapSink) Commit(n int) error               { h.got = append(h.got, h.room[:n]...); return nil }
func (h *heapSink) Write(bufs [][]byte) (int, error) { panic("not used") }
func (h *heapSink) Unsent() int                      { return 0 }
func (h *heapSink) Finish(flow.CloseReason)          {}

// Pull fills the room of its sink, however that lies in memory, and says what it
// waits for.
func TestPull(t *testing.T) {
	testkit.NoLeaks(t)
	for _, each := range []int{1 << 20, 100, 7} {
		l := onloop.Start(t, 0, loop.Config{PanicEnds: true})
		far, s, _ := open(t, l, end.Client, testkit.TCPOptions{})
		sink := &heapSink{each: each, max: 250}
		text := bytes.Repeat([]byte("0123456789"), 30)
		pull := func(wantN int, want end.Wait) {
			t.Helper()
			onloop.Do(t, l, func() {
				if n, next, err := s.Pull(sink, 1<<20); n != wantN || next != want || err != nil {
					t.Errorf("pieces of %d: pulled %d, %v, %v; want %d, %v", each, n, next, err, wantN, want)
				}
			})
		}
		pull(0, end.ForReadable)
		onloop.Do(t, l, func() { // both arrive at once
			far.Write(text)
			far.CloseWrite()
		})
		onloop.Eventually(t, l, "the text has arrived", s.Readable)
		pull(250, end.Nothing)
		pull(0, end.ForRoom)
		sink.max = 1000
		pull(50, end.Nothing)
		pull(0, end.Ended)
		pull(0, end.ForReadable) // the FIN is told once
		if !bytes.Equal(sink.got, text) {
			t.Errorf("pieces of %d: got %q", each, sink.got)
		}
	}
}

// commit offers n bytes of the pattern from offset on as the loop's block.
func commit(t testing.TB, s *end.Socket, offset, n int) {
	t.Helper()
	room := s.Room(n)
	if len(room) != 1 || len(room[0]) != n {
		t.Errorf("room in %d parts; want %d bytes in one", len(room), n)
		return
	}
	for i := range room[0] {
		room[0][i] = byte((offset + i) % 251)
	}
	if err := s.Commit(n); err != nil {
		t.Error(err)
	}
}

// What the kernel refuses is held, at most one block of it, in order; a FIN waits
// behind it.
func TestHold(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 0, loop.Config{PanicEnds: true})
	far, s, w := open(t, l, end.Server, testkit.TCPOptions{FarReadBuffer: 4 << 10, NearBuffers: 16 << 10})
	onloop.Eventually(t, l, "the first event", func() bool { return w.writable > 0 || s.Writable() })
	total := 0
	onloop.Do(t, l, func() {
		for s.Unsent() == 0 {
			commit(t, s, total, buf.BlockBytes)
			total += buf.BlockBytes
		}
		held := s.Unsent()
		if held > buf.BlockBytes || l.Metrics.Level(metric.HeldBytes) != int64(held) || l.Metrics.Level(metric.HeldBlocks) != 1 {
			t.Errorf("%d bytes are held; the gauges say %d in %d blocks", held,
				l.Metrics.Level(metric.HeldBytes), l.Metrics.Level(metric.HeldBlocks))
		}
		if s.Room(1) != nil {
			t.Error("there is room while bytes are held")
		}
		if n, err := s.Write([][]byte{[]byte("x")}); n != 0 || err != nil {
			t.Errorf("wrote %d, %v, past what is held", n, err)
		}
		w.writable = 0
		s.Finish(flow.CloseEOF) // behind it
		s.Finish(flow.CloseEOF) // once
	})
	got, err := io.ReadAll(far)
	if err != nil || len(got) != total {
		t.Fatalf("far read %d bytes, %v; want %d and EOF", len(got), err, total)
	}
	for i, b := range got {
		if b != byte(i%251) {
			t.Fatalf("byte %d is %d; want %d", i, b, i%251)
		}
	}
	onloop.Do(t, l, func() {
		if w.writable == 0 || s.Unsent() != 0 || len(w.ended) != 0 {
			t.Errorf("writable was told %d times, %d bytes are held, ended: %v", w.writable, s.Unsent(), w.ended)
		}
	})
}

// Write takes what the kernel does, and tells when it takes more.
func TestWrite(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 0, loop.Config{PanicEnds: true})
	far, s, w := open(t, l, end.Server, testkit.TCPOptions{FarReadBuffer: 4 << 10, NearBuffers: 16 << 10})
	block := bytes.Repeat([]byte("0123456789abcdef"), 4<<10)
	taken := 0
	onloop.Do(t, l, func() {
		for {
			n, err := s.Write([][]byte{block[:100], block[100:]})
			if err != nil {
				t.Errorf("write: %v", err)
			}
			taken += n
			if n < len(block) {
				break
			}
		}
		if s.Unsent() != 0 {
			t.Errorf("Write holds %d bytes; want what is not taken left to its owner", s.Unsent())
		}
		w.writable = 0
	})
	if _, err := io.CopyN(io.Discard, far, int64(taken)); err != nil {
		t.Fatal(err)
	}
	onloop.Eventually(t, l, "room is told", func() bool { return w.writable > 0 })
	onloop.Do(t, l, func() {
		if n, err := s.Write([][]byte{[]byte("more")}); n != 4 || err != nil {
			t.Errorf("wrote %d, %v; want all", n, err)
		}
	})
	got := make([]byte, 4)
	if _, err := io.ReadFull(far, got); err != nil || string(got) != "more" {
		t.Errorf("far read %q, %v", got, err)
	}
}

// The end of a connection is told once, for the side that it is, with its cause.
func TestEnded(t *testing.T) {
	testkit.NoLeaks(t)
	for _, side := range []struct {
		side  end.Side
		reset flow.CloseReason
	}{{end.Client, flow.CloseClientReset}, {end.Server, flow.CloseServerReset}} {
		for _, tt := range []struct {
			name string
			find func(t *testing.T, l *loop.Loop, s *end.Socket) // before the event is served
		}{
			{"by its event", func(*testing.T, *loop.Loop, *end.Socket) {}},
			{"by reading", func(t *testing.T, _ *loop.Loop, s *end.Socket) {
				// What the kernel does with an event is not asked for here.
				s.Ready(sys.Readable)
				if _, next, err := s.Pull(&heapSink{each: 100, max: 100}, 100); err != sys.ECONNRESET || next != end.Ended {
					t.Errorf("pull: %v, %v; want ECONNRESET", next, err)
				}
			}},
			{"by writing", func(t *testing.T, _ *loop.Loop, s *end.Socket) {
				if _, err := s.Write([][]byte{[]byte("x")}); err != sys.ECONNRESET {
					t.Errorf("write: %v; want ECONNRESET", err)
				}
			}},
			{"by committing", func(t *testing.T, _ *loop.Loop, s *end.Socket) {
				s.Room(1)
				if err := s.Commit(1); err != sys.ECONNRESET {
					t.Errorf("commit: %v; want ECONNRESET", err)
				}
			}},
		} {
			l := onloop.Start(t, 0, loop.Config{PanicEnds: true})
			far, s, w := open(t, l, side.side, testkit.TCPOptions{})
			onloop.Do(t, l, func() {
				testkit.ResetTCP(t, far)
				tt.find(t, l, s)
			})
			onloop.Eventually(t, l, "the end is told", func() bool { return len(w.ended) > 0 })
			onloop.Do(t, l, func() {}) // one more turn
			onloop.Do(t, l, func() {
				if len(w.ended) != 1 || w.ended[0] != side.reset || w.err != sys.ECONNRESET || s.FD().Valid() {
					t.Errorf("%s: told %v, %v, still open: %v; want %v once", tt.name, w.ended, w.err, s.FD().Valid(), side.reset)
				}
			})
		}
	}
}

// A connect that is under way is told as up or as refused, and takes nothing
// before.
func TestConnecting(t *testing.T) {
	testkit.NoLeaks(t)
	for _, up := range []bool{true, false} {
		l := onloop.Start(t, 0, loop.Config{PanicEnds: true})
		ln := testkit.ListenTCP(t, testkit.TCPOptions{})
		to := ln.Addr().(*net.TCPAddr).AddrPort()
		if !up {
			ln.Close()
		}
		s := new(end.Socket)
		w := &witness{s: s}
		onloop.Do(t, l, func() {
			if err := sys.Socket(s.FD(), sys.IPv4); err != nil {
				t.Error(err)
			}
			if err := sys.Connect(s.FD(), to); err != sys.EINPROGRESS {
				t.Errorf("connect: %v", err)
			}
			if err := s.Register(l, end.Server, w, false); err != nil {
				t.Error(err)
			}
			if s.Writable() || s.Room(1) != nil {
				t.Error("there is room before the connection is up")
			}
		})
		onloop.Eventually(t, l, "the connect ends", func() bool { return w.writable > 0 || len(w.ended) > 0 })
		onloop.Do(t, l, func() {
			if up != (w.writable == 1) || up == (len(w.ended) == 1) || !up && w.err != sys.ECONNREFUSED {
				t.Errorf("up: %v; writable %d, ended %v, %v", up, w.writable, w.ended, w.err)
			}
			s.Close()
		})
		ln.Close()
	}
}

// A socket that was closed can be used again, one that is in use can't.
func TestClear(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 0, loop.Config{PanicEnds: true})
	_, s, _ := open(t, l, end.Client, testkit.TCPOptions{})
	panicked := func() (v any) {
		defer func() { v = recover() }()
		s.Clear()
		return nil
	}
	onloop.Do(t, l, func() {
		if panicked() == nil {
			t.Error("a socket in use was cleared")
		}
		s.Close()
		s.Close() // does nothing
		if v := panicked(); v != nil {
			t.Errorf("clear of a closed socket: %v", v)
		}
	})
	far, near := testkit.TCPPair(t, testkit.TCPOptions{}) // its number is perhaps the old one
	near.MoveTo(s.FD())
	onloop.Do(t, l, func() {
		if err := s.Register(l, end.Server, &witness{s: s}, true); err != nil {
			t.Error(err)
			return
		}
		commit(t, s, 0, 10)
		s.Finish(flow.CloseEOF)
	})
	if got, err := io.ReadAll(far); len(got) != 10 || err != nil {
		t.Errorf("far read %d bytes, %v", len(got), err)
	}
	onloop.Do(t, l, func() { s.Close() })
}

// A socket that can't be registered stays its owner's.
func TestRegisterFails(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 0, loop.Config{PanicEnds: true})
	s := new(end.Socket)
	onloop.Do(t, l, func() {
		if err := s.Register(l, end.Client, &witness{s: s}, true); err != sys.EBADF {
			t.Errorf("no descriptor: %v; want EBADF", err)
		}
		s.Clear()
	})
}
