package relay_test

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/relay"
	"github.com/sluice-mesh/sluice/dataplane/splice"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

// expect reads exactly n bytes of the pattern that send writes.
func expect(t testing.TB, c *net.TCPConn, n int) {
	t.Helper()
	got := make([]byte, n)
	if have, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, pattern(n)) {
		t.Fatalf("read %d of %d bytes, %v; as sent: %v", have, n, err, bytes.Equal(got, pattern(n)))
	}
}

// pattern is text that is nowhere like itself.
func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i) ^ byte(i>>8) ^ byte(i>>16)
	}
	return p
}

func send(t testing.TB, c *net.TCPConn, n int) {
	t.Helper()
	if _, err := c.Write(pattern(n)); err != nil {
		t.Fatal(err)
	}
}

// flood writes until the connection breaks.
func flood(c *net.TCPConn) {
	for b := make([]byte, 64<<10); ; {
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

func shut(t testing.TB, c *net.TCPConn) {
	t.Helper()
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
}

func expectEOF(t testing.TB, c *net.TCPConn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Fatalf("read %d, %v; want EOF", n, err)
	}
}

// expectReset reads until a reset comes and returns how many bytes came first.
func expectReset(t testing.TB, c *net.TCPConn) (n int) {
	t.Helper()
	b, err := io.ReadAll(c)
	if sys.ErrnoOf(err) != sys.ECONNRESET {
		t.Fatalf("read %d bytes, then %v; want ECONNRESET", len(b), err)
	}
	if !bytes.Equal(b, pattern(len(b))) {
		t.Fatalf("%d bytes before the reset are not as sent", len(b))
	}
	return len(b)
}

// expectBroken writes until the connection is found to be reset, for a side that
// reads nothing but EOF: it has read a FIN, or was told of the reset by a write.
func expectBroken(t testing.TB, c *net.TCPConn) {
	t.Helper()
	testkit.Eventually(t, testkit.Wait, "a reset", func() bool {
		_, err := c.Write([]byte("x"))
		e := sys.ErrnoOf(err)
		if err != nil && e != sys.EPIPE && e != sys.ECONNRESET {
			t.Fatalf("write: %v; want a reset", err)
		}
		return err != nil
	})
}

// sides names the two ends of a flow by what they do.
func (f *flowing) sides(clientFirst bool) (first, second *net.TCPConn) {
	if clientFirst {
		return f.client, f.server
	}
	return f.server, f.client
}

// Each side's FIN reaches the other at once, while the other direction goes on
// for as long as it likes; the last one ends the flow.
func TestHalfClose(t *testing.T) {
	testkit.NoLeaks(t)
	for _, tt := range []struct {
		name        string
		clientFirst bool
		before      int // bytes of the first side before its FIN
		after       int // of the second side, after it has seen that
		cfg         relay.Config
	}{
		{"client first, small", true, 100, 200, relay.Config{}},
		{"server first, small", false, 100, 200, relay.Config{}},
		{"client first, nothing sent", true, 0, 0, relay.Config{}},
		{"client first, bulk back", true, 1 << 20, 4 << 20, relay.Config{}},
		{"server first, bulk back", false, 1 << 20, 4 << 20, relay.Config{}},
		{"client first, bulk back, copied", true, 1 << 20, 4 << 20, relay.Config{NoSplice: true}},
		{"server first, bulk back, copied", false, 1 << 20, 4 << 20, relay.Config{NoSplice: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true})
			f := join(t, l, tt.cfg, testkit.TCPOptions{})
			first, second := f.sides(tt.clientFirst)
			go func() {
				send(t, first, tt.before)
				shut(t, first)
			}()
			expect(t, second, tt.before)
			expectEOF(t, second)
			go func() {
				send(t, second, tt.after)
				second.Close()
			}()
			expect(t, first, tt.after)
			expectEOF(t, first)
			got := f.wait(t)
			want := flow.Counts{Up: uint64(tt.before), Down: uint64(tt.after)}
			if !tt.clientFirst {
				want = flow.Counts{Up: uint64(tt.after), Down: uint64(tt.before)}
			}
			if got.why != flow.CloseEOF || got.err != nil || got.counts.Up != want.Up || got.counts.Down != want.Down {
				t.Errorf("ended with %v, %v, %+v; want eof, %+v", got.why, got.err, got.counts, want)
			}
			if spliced := got.counts.UpSpliced + got.counts.DownSpliced; (spliced > 0) != (tt.after > 1<<20 && !tt.cfg.NoSplice) {
				t.Errorf("%d bytes were spliced", spliced)
			}
		})
	}
}

// Both sides close at the same moment.
func TestBothClose(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true})
	f := join(t, l, relay.Config{}, testkit.TCPOptions{})
	send(t, f.client, 10)
	send(t, f.server, 20)
	shut(t, f.client)
	shut(t, f.server)
	expect(t, f.server, 10)
	expect(t, f.client, 20)
	expectEOF(t, f.client)
	expectEOF(t, f.server)
	if got := f.wait(t); got.why != flow.CloseEOF || got.counts != (flow.Counts{Up: 10, Down: 20}) {
		t.Errorf("ended with %v, %+v", got.why, got.counts)
	}
}

// What was sent before the flow is joined, FIN included, is not told by a new
// event.
func TestJoinLate(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true})
	f := prepare(t, l, testkit.TCPOptions{})
	send(t, f.client, 1000)
	shut(t, f.client)
	send(t, f.server, 2000)
	for i := range f.ends {
		testkit.Eventually(t, testkit.Wait, "the loop has seen it", func() (ok bool) {
			onloop.Do(t, l, func() { ok = f.ends[i].Readable() })
			return ok
		})
	}
	onloop.Do(t, l, func() { f.pair.Join(l, &relay.Config{}, &f.ends[0], &f.ends[1], f) })
	expect(t, f.server, 1000)
	expectEOF(t, f.server)
	expect(t, f.client, 2000)
	f.server.Close()
	expectEOF(t, f.client)
	f.wait(t)
}

// A reset is passed on as one, whatever the flow is doing.
func TestReset(t *testing.T) {
	testkit.NoLeaks(t)
	for _, engine := range []struct {
		name string
		cfg  relay.Config
	}{{"splice", relay.Config{}}, {"copy", relay.Config{NoSplice: true}}} {
		for _, byClient := range []bool{true, false} {
			for _, tt := range []struct {
				name string
				// before puts the flow into a state. from resets then.
				before func(t *testing.T, f *flowing, from, to *net.TCPConn)
				after  func(t testing.TB, to *net.TCPConn) // how to finds it
			}{
				{"at once", func(*testing.T, *flowing, *net.TCPConn, *net.TCPConn) {}, resetComes},
				{"after an exchange", func(t *testing.T, _ *flowing, from, to *net.TCPConn) {
					send(t, from, 100)
					expect(t, to, 100)
					send(t, to, 100)
					expect(t, from, 100)
				}, resetComes},
				{"in mid-stream", func(t *testing.T, _ *flowing, from, to *net.TCPConn) {
					go io.Copy(io.Discard, from)
					go flood(from)
					go flood(to)
					if _, err := io.CopyN(io.Discard, to, 1<<20); err != nil {
						t.Fatal(err)
					}
				}, expectBroken},
				{"with both readers stalled", func(t *testing.T, f *flowing, from, to *net.TCPConn) {
					go flood(from)
					go flood(to)
					stalled(t, f)
				}, expectBroken},
				{"after its own FIN", func(t *testing.T, _ *flowing, from, to *net.TCPConn) {
					shut(t, from)
					expectEOF(t, to)
				}, expectBroken},
				{"after its own FIN, while bytes come", func(t *testing.T, f *flowing, from, to *net.TCPConn) {
					shut(t, from)
					expectEOF(t, to)
					go flood(to)
					stalled(t, f)
				}, func(testing.TB, *net.TCPConn) {}}, // to finds it when it writes
				{"after the other's FIN", func(t *testing.T, _ *flowing, from, to *net.TCPConn) {
					shut(t, to)
					expectEOF(t, from)
					send(t, from, 100)
					expect(t, to, 100)
				}, resetComes},
			} {
				side := "server"
				if byClient {
					side = "client"
				}
				t.Run(engine.name+", "+side+" "+tt.name, func(t *testing.T) {
					l := onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true})
					f := join(t, l, engine.cfg, testkit.TCPOptions{FarReadBuffer: 64 << 10, NearBuffers: 64 << 10})
					from, to := f.sides(byClient)
					tt.before(t, f, from, to)
					testkit.ResetTCP(t, from)
					want := flow.CloseServerReset
					if byClient {
						want = flow.CloseClientReset
					}
					if got := f.wait(t); got.why != want {
						t.Errorf("ended with %v, %v; want %v", got.why, got.err, want)
					}
					tt.after(t, to)
				})
			}
		}
	}
}

func resetComes(t testing.TB, c *net.TCPConn) { expectReset(t, c) }

// stalled waits until the loop has nothing left to do for the flow, although
// bytes wait to be read: nobody reads at the other side.
func stalled(t testing.TB, f *flowing) {
	t.Helper()
	var last flow.Counts
	same := 0
	testkit.Eventually(t, testkit.Wait, "the flow comes to a halt", func() bool {
		var now flow.Counts
		onloop.Do(t, f.l, func() { now = f.pair.Counts() })
		if now != last || now == (flow.Counts{}) {
			last, same = now, 0
			return false
		}
		same++
		return same == 10
	})
}

// Abort cuts both sides.
func TestAbort(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true})
	f := join(t, l, relay.Config{}, testkit.TCPOptions{})
	send(t, f.client, 10)
	expect(t, f.server, 10)
	onloop.Do(t, l, func() {
		f.pair.Abort(flow.ClosePodDrain)
		f.pair.Abort(flow.CloseDrain) // nothing is left to cut
	})
	if got := f.wait(t); got.why != flow.ClosePodDrain || got.err != nil {
		t.Errorf("ended with %v, %v", got.why, got.err)
	}
	for _, c := range []*net.TCPConn{f.client, f.server} {
		if n := expectReset(t, c); n != 0 {
			t.Errorf("%d bytes came from nowhere", n)
		}
	}
}

// What a side sent before its reset reaches the other, as it would without us.
func TestLastWords(t *testing.T) {
	testkit.NoLeaks(t)
	big := testkit.TCPOptions{FarReadBuffer: 4 << 20, NearBuffers: 4 << 20}
	for _, tt := range []struct {
		name  string
		bytes int
		busy  bool // the loop looks only after the reset
		cfg   relay.Config
	}{
		{"100 KB", 100_000, false, relay.Config{}},
		{"100 KB at once", 100_000, true, relay.Config{}},
		{"100 KB at once, copied", 100_000, true, relay.Config{NoSplice: true}},
		{"more than the share of a turn", 1<<20 + 300_000, true, relay.Config{}},
		{"more than the share of a turn, copied", 1<<20 + 300_000, true, relay.Config{NoSplice: true}},
	} {
		for _, byClient := range []bool{false, true} {
			t.Run(tt.name, func(t *testing.T) {
				l := onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true})
				f := join(t, l, tt.cfg, big)
				from, to := f.sides(byClient)
				last := func() {
					send(t, from, tt.bytes)
					testkit.ResetTCP(t, from)
				}
				if tt.busy {
					onloop.Do(t, l, last)
				} else {
					last()
				}
				f.wait(t)
				if n := expectReset(t, to); n != tt.bytes {
					t.Errorf("%d of %d bytes came before the reset", n, tt.bytes)
				}
			})
		}
	}
}

// The writer may find the reset before its event is served: what came before it
// is passed on all the same.
func TestLastWordsFoundByWriting(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true})
	f := join(t, l, relay.Config{}, testkit.TCPOptions{})
	onloop.Do(t, l, func() {
		send(t, f.client, 10) // its event is first
		send(t, f.server, 10_000)
		testkit.ResetTCP(t, f.server)
	})
	if got := f.wait(t); got.why != flow.CloseServerReset || got.counts.Up != 0 {
		t.Errorf("ended with %v, %+v; want server_reset and nothing up", got.why, got.counts)
	}
	if m := figures(t, l); m.Count(metric.UpBytes) != 0 || m.Count(metric.DownBytes) != 10_000 {
		t.Errorf("counted %d bytes up and %d down; want none and 10000", m.Count(metric.UpBytes), m.Count(metric.DownBytes))
	}
	if n := expectReset(t, f.client); n != 10_000 {
		t.Errorf("%d of 10000 bytes came before the reset", n)
	}
}

// A server that closes while a late request is under way sends a FIN and then,
// as answer to the request, a reset. The client reads all and EOF, as it would
// without us.
func TestResetBehindFIN(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true})
	f := join(t, l, relay.Config{}, testkit.TCPOptions{})
	onloop.Do(t, l, func() {
		send(t, f.server, 10_000)
		f.server.Close()
		// The loop's own end meets a closed socket.
		if _, err := sys.Send(f.ends[1].FD(), []byte("late")); err != nil {
			t.Error(err)
		}
	})
	if got := f.wait(t); got.why != flow.CloseServerReset {
		t.Errorf("ended with %v, %v; want server_reset", got.why, got.err)
	}
	expect(t, f.client, 10_000)
	expectEOF(t, f.client)
	expectBroken(t, f.client)
}

// A fault while an end is served resets both.
func TestPanicked(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true})
	for i := range 3 {
		f := join(t, l, relay.Config{}, testkit.TCPOptions{})
		onloop.Do(t, l, func() {
			if i == 2 {
				f.pair.Panicked("a fault")
			} else {
				f.ends[i].Panicked("a fault")
			}
		})
		if got := f.wait(t); got.why != flow.ClosePanic {
			t.Errorf("ended with %v; want panic", got.why)
		}
		expectReset(t, f.client)
		expectReset(t, f.server)
	}
}
