package session_test

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/session"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

var tuple = flow.Tuple{
	Client: netip.MustParseAddrPort("198.51.100.7:40000"),
	Dst:    netip.MustParseAddrPort("[2001:db8::10]:80"),
}

// A bare is a pod without a namespace, on two loops.
type bare struct {
	loops [2]*loop.Loop
	env   *session.Env
	pod   *session.Pod
	fault chan error // of thaws
}

func newBare(t testing.TB, cfg loop.Config) *bare {
	cfg.PanicEnds = true
	b := &bare{fault: make(chan error, 16)}
	for i := range b.loops {
		b.loops[i] = onloop.Start(t, i, cfg)
	}
	b.env = session.NewEnv(session.Config{Log: true}, b.loops[:])
	b.pod = session.NewBarePod(b.env, b.loops[0])
	t.Cleanup(func() { b.checkEmpty(t) })
	return b
}

// adopt makes a flow on the first loop; the far sides are the test's. One that is
// not up waits for an answer that does not come.
func (b *bare) adopt(t testing.TB, up bool) (client, server *net.TCPConn) {
	t.Helper()
	_, client, server = b.adoptID(t, up)
	return client, server
}

// adoptID is adopt that tells the flow's number.
func (b *bare) adoptID(t testing.TB, up bool) (id uint64, client, server *net.TCPConn) {
	t.Helper()
	client, nearClient := testkit.TCPPair(t, testkit.TCPOptions{FarReadBuffer: 16 << 10, NearBuffers: 64 << 10})
	server, nearServer := testkit.TCPPair(t, testkit.TCPOptions{FarReadBuffer: 16 << 10, NearBuffers: 64 << 10})
	if !up {
		nearServer.Close()
		silent(t, nearServer)
	}
	onloop.Do(t, b.loops[0], func() {
		var err error
		if id, err = b.pod.Adopt(nearClient, nearServer, tuple, up); err != nil {
			t.Error(err)
		}
	})
	return id, client, server
}

// silent starts a connect into f that nobody answers: the queue of the listener
// is full, and the kernel drops what comes then.
func silent(t testing.TB, f *sys.FD) {
	t.Helper()
	var l sys.FD
	t.Cleanup(func() { l.Close() })
	for _, err := range []error{
		sys.Socket(&l, sys.IPv4), sys.Bind(&l, netip.MustParseAddrPort("127.0.0.1:0")), sys.Listen(&l, 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	to, err := sys.LocalAddr(&l)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := sys.Socket(f, sys.IPv4); err != nil {
		t.Fatal(err)
	}
	if err := sys.Connect(f, to); !errors.Is(err, sys.EINPROGRESS) {
		t.Fatal(err)
	}
}

// freeze takes the one flow off a loop.
func (b *bare) freeze(t testing.TB, l *loop.Loop) *session.Frozen {
	t.Helper()
	var all []*session.Frozen
	onloop.Do(t, l, func() { all = b.pod.FreezeAll(l) })
	if len(all) != 1 {
		t.Fatalf("%d flows were frozen; want one", len(all))
	}
	return all[0]
}

// thaw goes on with f on l, and waits for that.
func (b *bare) thaw(t testing.TB, f *session.Frozen, l *loop.Loop) {
	t.Helper()
	b.pod.Thaw(f, l, func(err error) { b.fault <- err })
	onloop.Do(t, b.loops[0], func() {})
	onloop.Do(t, l, func() {})
}

// checkEmpty fails when something of a flow is left.
func (b *bare) checkEmpty(t testing.TB) {
	t.Helper()
	for _, l := range b.loops {
		onloop.Do(t, l, func() { b.pod.CutAll(l, flow.CloseDrain) })
	}
	testkit.Eventually(t, testkit.Wait, "every session is back", func() (ok bool) {
		onloop.Do(t, b.loops[0], func() { live, _, tuples := b.pod.Kept(); ok = live == 0 && tuples == 0 })
		return ok
	})
	for i, l := range b.loops {
		onloop.Do(t, l, func() {
			for g := range metric.Gauge(metric.NumGauges) {
				if n := l.Metrics.Level(g); n != 0 {
					t.Errorf("loop %d: %s is %d after the end", i, g.Describe().Name, n)
				}
			}
			if l.Flows() != 0 || l.Blocks.Lent() != 1 || l.Pipes.Lent() != 0 {
				t.Errorf("loop %d: %d flows, %d blocks, %d pipes after the end; want the loop's own block",
					i, l.Flows(), l.Blocks.Lent(), l.Pipes.Lent())
			}
		})
	}
}

// A flow goes on with its identity, its tuple, its counts and its age.
func TestFreezeKeeps(t *testing.T) {
	testkit.NoLeaks(t)
	for _, up := range []bool{true, false} {
		b := newBare(t, loop.Config{})
		client, server := b.adopt(t, up)
		want := flow.Counts{}
		if up {
			client.Write([]byte("0123456789"))
			if _, err := io.ReadFull(server, make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
			want.Up = 10
		}
		look := func(l *loop.Loop) (i flow.Info) {
			onloop.Do(t, l, func() {
				if all := session.Here(l, 2); len(all) == 1 {
					i = all[0]
				}
			})
			return i
		}
		before := look(b.loops[0])
		for round := range 5 {
			b.thaw(t, b.freeze(t, b.loops[round%2]), b.loops[1-round%2])
			after := look(b.loops[1-round%2])
			if len(b.fault) > 0 {
				t.Fatal(<-b.fault)
			}
			if after.Age < before.Age || after.Loop != 1-round%2 || after.Counts != want {
				t.Errorf("round %d: age %v, was %v; loop %d; counts %+v; want %+v",
					round, after.Age, before.Age, after.Loop, after.Counts, want)
			}
			before.Age, before.Loop = after.Age, after.Loop
			if after != before {
				t.Errorf("round %d: became %+v; was %+v", round, after, before)
			}
			live, _, tuples := 0, 0, 0
			testkit.Eventually(t, testkit.Wait, "the session that was frozen is back", func() bool {
				onloop.Do(t, b.loops[0], func() { live, _, tuples = b.pod.Kept() })
				return live == 1 && tuples == 1
			})
		}
		onloop.Do(t, b.loops[0], func() {
			if _, unused, _ := b.pod.Kept(); unused > 1 {
				t.Errorf("%d sessions wait to be used again after one flow", unused)
			}
		})
	}
}

// What a thaw is refused for resets both sides: nobody is led to believe that
// everything was delivered.
func TestThawRefused(t *testing.T) {
	testkit.NoLeaks(t)
	for _, up := range []bool{true, false} {
		for _, tt := range []struct {
			name   string
			damage func(f *session.Frozen)
			want   string
		}{
			{"empty", func(f *session.Frozen) { f.State = nil }, "truncated"},
			{"version", func(f *session.Frozen) { f.State[0]++ }, "version"},
			{"state", func(f *session.Frozen) { f.State[1] = 99 }, "bad state"},
			{"path", func(f *session.Frozen) { f.State[2] = 99 }, "bad path"},
			{"age", func(f *session.Frozen) { f.State = aged(f.State, math.MaxInt64) }, "bad duration"},
			{"age beyond all bounds", func(f *session.Frozen) { f.State = aged(f.State, math.MaxUint64) }, "bad duration"},
			{"no descriptors", func(f *session.Frozen) {
				for _, fd := range f.FDs {
					sys.Reset(fd)
				}
				f.FDs = nil
			}, "bad file descriptor"},
			{"one descriptor", func(f *session.Frozen) {
				for _, fd := range f.FDs[1:] {
					sys.Reset(fd)
				}
				f.FDs = f.FDs[:1]
			}, "bad file descriptor"},
			{"cut", func(f *session.Frozen) { f.State = f.State[:len(f.State)-1] }, "damaged"},
			{"longer", func(f *session.Frozen) { f.State = append(f.State, 0) }, "damaged"},
		} {
			t.Run(tt.name, func(t *testing.T) {
				b := newBare(t, loop.Config{})
				client, server := b.adopt(t, up)
				f := b.freeze(t, b.loops[0])
				tt.damage(f)
				fds := f.FDs
				b.thaw(t, f, b.loops[1])
				if err := testkit.Receive(t, testkit.Wait, "the fault", b.fault); !strings.Contains(err.Error(), tt.want) {
					t.Errorf("refused for %v; want %q", err, tt.want)
				}
				for i, fd := range fds {
					if fd.Valid() {
						t.Errorf("descriptor %d is open", i)
					}
				}
				if n := b.refused(t); n != 1 {
					t.Errorf("%d refusals are counted; want one", n)
				}
				if _, err := client.Read(make([]byte, 1)); sys.ErrnoOf(err) != sys.ECONNRESET {
					t.Errorf("client read %v; want a reset", err)
				}
				if _, err := server.Read(make([]byte, 1)); up && sys.ErrnoOf(err) != sys.ECONNRESET {
					t.Errorf("server read %v; want a reset", err)
				}
			})
		}
	}
}

// aged is state with another age.
func aged(state []byte, age uint64) []byte {
	_, id := binary.Uvarint(state[4:])
	_, old := binary.Uvarint(state[4+id:])
	return slices.Concat(state[:4+id], binary.AppendUvarint(nil, age), state[4+id+old:])
}

// refused is how many states could not be taken up.
func (b *bare) refused(t testing.TB) (n uint64) {
	t.Helper()
	for _, l := range b.loops {
		onloop.Do(t, l, func() { n += l.Metrics.Count(metric.ThawRefused) })
	}
	return n
}

// A flow of a pod that has ended in the meantime is reset.
func TestThawIntoEndedPod(t *testing.T) {
	testkit.NoLeaks(t)
	b := newBare(t, loop.Config{})
	client, server := b.adopt(t, true)
	f := b.freeze(t, b.loops[0])
	onloop.Do(t, b.loops[0], func() { b.pod.SetEnded(true) })
	b.thaw(t, f, b.loops[1])
	if err := testkit.Receive(t, testkit.Wait, "the fault", b.fault); !strings.Contains(err.Error(), "pod bare is gone") {
		t.Errorf("refused for %v", err)
	}
	for _, c := range []*net.TCPConn{client, server} {
		if _, err := c.Read(make([]byte, 1)); sys.ErrnoOf(err) != sys.ECONNRESET {
			t.Errorf("read %v; want a reset", err)
		}
	}
	if n := b.refused(t); n != 1 {
		t.Errorf("%d refusals are counted; want one", n)
	}
}

// The record of a flow tells its whole age, also when it is older than the
// process that ends it.
func TestRecordOfThawed(t *testing.T) {
	testkit.NoLeaks(t)
	b := newBare(t, loop.Config{})
	id, client, _ := b.adoptID(t, true)
	f := b.freeze(t, b.loops[0])
	const age = time.Hour
	f.State = aged(f.State, uint64(age))
	b.thaw(t, f, b.loops[1])
	testkit.ResetTCP(t, client)
	var got flow.Record
	testkit.Eventually(t, testkit.Wait, "the record", func() bool {
		for _, r := range b.env.Rings() {
			r.Take(func(rec *flow.Record) { got = *rec })
		}
		return got.ID != 0
	})
	if got.ID != id || got.Reason != flow.CloseClientReset || got.AgeNano < int64(age) || got.AgeNano > int64(age+time.Minute) {
		t.Errorf("the record is %+v; want flow %d, reset by its client after %v", got, id, age)
	}
}

// A flow can't go on where nothing runs any more; what the pod noted of it is
// given back.
func TestThawOnEndedLoop(t *testing.T) {
	testkit.NoLeaks(t)
	b := newBare(t, loop.Config{})
	client, _ := b.adopt(t, true)
	f := b.freeze(t, b.loops[0])
	other, err := loop.New(9, loop.Config{Memory: onloop.Heap})
	if err != nil {
		t.Fatal(err)
	}
	other.Stop()
	if err := other.Run(); err != nil {
		t.Fatal(err)
	}
	b.pod.Thaw(f, other, func(err error) { b.fault <- err })
	if err := testkit.Receive(t, testkit.Wait, "the fault", b.fault); !strings.Contains(err.Error(), "loop 9 has ended") {
		t.Errorf("refused for %v", err)
	}
	if _, err := client.Read(make([]byte, 1)); sys.ErrnoOf(err) != sys.ECONNRESET {
		t.Errorf("client read %v; want a reset", err)
	}
	if n := b.refused(t); n != 1 {
		t.Errorf("%d refusals are counted; want one", n)
	}
	if other.Flows() != 0 {
		t.Errorf("the ended loop counts %d flows", other.Flows())
	}
}

// What is dropped, is dropped with a reset.
func TestFrozenClose(t *testing.T) {
	testkit.NoLeaks(t)
	b := newBare(t, loop.Config{})
	client, server := b.adopt(t, true)
	b.freeze(t, b.loops[0]).Close()
	for _, c := range []*net.TCPConn{client, server} {
		if _, err := c.Read(make([]byte, 1)); sys.ErrnoOf(err) != sys.ECONNRESET {
			t.Errorf("read %v; want a reset", err)
		}
	}
}
