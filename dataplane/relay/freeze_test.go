package relay_test

import (
	"crypto/sha256"
	"net"
	"sync"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/relay"
	"github.com/sluice-mesh/sluice/dataplane/splice"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

// A frozen is a flow as plain data.
type frozen struct {
	state []byte
	fds   []*sys.FD
}

// freeze writes the flow down and drops it; nil when it has ended.
func (f *flowing) freeze(t testing.TB) (z *frozen) {
	t.Helper()
	onloop.Do(t, f.l, func() {
		if f.told.Load() == 0 {
			z = new(frozen)
			z.state, z.fds = f.pair.Freeze(nil, nil)
		}
	})
	return z
}

// thaw goes on with z on l.
func (f *flowing) thaw(t testing.TB, l *loop.Loop, cfg *relay.Config, z *frozen) {
	t.Helper()
	onloop.Do(t, l, func() {
		f.life = &life{l: l}
		fds, d := sys.NewFDs(z.fds), flow.NewDecoder(z.state)
		defer fds.Close()
		if err := f.pair.Thaw(d, fds, l, cfg, &f.ends[0], &f.ends[1], f); err != nil {
			t.Errorf("thaw: %v", err)
		}
		if len(d.Rest()) != 0 || fds.Next().Valid() {
			t.Errorf("%d bytes of state, or a descriptor, are left", len(d.Rest()))
		}
	})
}

// runner is a Runner made of a function.
type runner func()

func (r runner) Run() { r() }

// Bulk both ways goes from loop to loop again and again: nothing is lost, and
// the counts go on.
func TestFreezeThawUnderLoad(t *testing.T) {
	testkit.NoLeaks(t)
	const total = 24 << 20
	for _, tt := range []struct {
		name string
		cfg  relay.Config
	}{{"splice", relay.Config{}}, {"copy", relay.Config{NoSplice: true}}} {
		t.Run(tt.name, func(t *testing.T) {
			loops := [2]*loop.Loop{onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true}), onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true})}
			f := join(t, loops[0], tt.cfg, testkit.TCPOptions{FarReadBuffer: 16 << 10, NearBuffers: 128 << 10})
			var wg sync.WaitGroup
			for i, way := range []struct{ from, to *net.TCPConn }{{f.client, f.server}, {f.server, f.client}} {
				sums := make(chan [sha256.Size]byte, 1)
				wg.Go(func() {
					sum, err := hashing(way.from, total, byte(i))
					if err != nil {
						t.Errorf("way %d: send: %v", i, err)
					}
					sums <- sum
				})
				wg.Go(func() {
					if got, err := reading(way.to, 9000); err != nil || got != <-sums {
						t.Errorf("way %d: read: %v, or the hashes differ", i, err)
					}
				})
			}
			rounds, held, piped := 0, 0, 0
			for z := f.freeze(t); z != nil; rounds++ {
				f.thaw(t, loops[rounds%2], &tt.cfg, z)
				// What the next turn moves, and no more.
				next := make(chan *frozen, 1)
				onloop.Do(t, f.l, func() {
					f.l.Again(runner(func() {
						if f.told.Load() > 0 {
							next <- nil
							return
						}
						if f.ends[0].Unsent()+f.ends[1].Unsent() > 0 {
							held++
						}
						if up, down := f.pair.InPipe(); up+down > 0 {
							piped++
						}
						z := new(frozen)
						z.state, z.fds = f.pair.Freeze(nil, nil)
						next <- z
					}))
				})
				z = testkit.Receive(t, testkit.Wait, "the next turn", next)
			}
			wg.Wait()
			got := f.wait(t)
			if got.why != flow.CloseEOF || got.counts.Up != total || got.counts.Down != total {
				t.Errorf("ended with %v, %v, %+v; want eof and %d each way", got.why, got.err, got.counts, total)
			}
			if rounds < 10 || tt.cfg.NoSplice != (piped == 0) || tt.cfg.NoSplice && held == 0 {
				t.Errorf("frozen %d times, %d with held bytes, %d with bytes in a pipe: this test shows too little", rounds, held, piped)
			}
			t.Logf("frozen %d times, %d with held bytes, %d with bytes in a pipe", rounds, held, piped)
			for _, l := range loops {
				checkEmpty(t, l)
			}
		})
	}
}

// A flow that is frozen in any state of its closing goes on from there.
func TestFreezeThawHalfClosed(t *testing.T) {
	testkit.NoLeaks(t)
	for _, byClient := range []bool{true, false} {
		a, b := onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true}), onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true})
		f := join(t, a, relay.Config{}, testkit.TCPOptions{FarReadBuffer: 16 << 10, NearBuffers: 16 << 10})
		first, second := f.sides(byClient)
		const total = 300_000
		go func() { // more than is read now: the FIN waits behind held bytes
			first.Write(pattern(total))
			first.CloseWrite()
		}()
		stalled(t, f)
		f.thaw(t, b, &relay.Config{}, f.freeze(t))
		expect(t, second, total)
		expectEOF(t, second)
		f.thaw(t, a, &relay.Config{}, f.freeze(t))
		onloop.Do(t, a, func() {
			if up, down := f.pair.HalfClosed(); up != byClient || down == byClient {
				t.Errorf("closed up %v, down %v; want only by the first side", up, down)
			}
		})
		send(t, second, 1000)
		expect(t, first, 1000)
		z := f.freeze(t)
		second.Close() // while nobody looks
		f.thaw(t, b, &relay.Config{}, z)
		expectEOF(t, first)
		if got := f.wait(t); got.why != flow.CloseEOF || got.counts.Up+got.counts.Down != total+1000 {
			t.Errorf("ended with %v, %v, %+v", got.why, got.err, got.counts)
		}
		checkEmpty(t, a)
		checkEmpty(t, b)
	}
}

// A reset that comes while a flow is on its way is passed on after it.
func TestResetWhileFrozen(t *testing.T) {
	testkit.NoLeaks(t)
	for _, byClient := range []bool{true, false} {
		a, b := onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true}), onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true})
		f := join(t, a, relay.Config{}, testkit.TCPOptions{})
		from, to := f.sides(byClient)
		z := f.freeze(t)
		send(t, from, 1000)
		testkit.ResetTCP(t, from)
		f.thaw(t, b, &relay.Config{}, z)
		want := flow.CloseServerReset
		if byClient {
			want = flow.CloseClientReset
		}
		if got := f.wait(t); got.why != want {
			t.Errorf("ended with %v, %v; want %v", got.why, got.err, want)
		}
		if n := expectReset(t, to); n != 1000 {
			t.Errorf("%d of 1000 bytes came before the reset", n)
		}
		checkEmpty(t, a)
	}
}

// A state that is damaged is refused: nothing is left open, and neither side is
// led to believe that it got everything.
func TestThawDamaged(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true})
	for cut := 0; ; cut++ {
		f := prepare(t, l, testkit.TCPOptions{})
		onloop.Do(t, l, func() { f.pair.Join(l, &relay.Config{}, &f.ends[0], &f.ends[1], f) })
		z := f.freeze(t)
		f.told.Store(1)          // this flow ends here
		if cut >= len(z.state) { // its length depends on its age
			for _, fd := range z.fds {
				fd.Close()
			}
			break
		}
		onloop.Do(t, l, func() {
			f.life = &life{l: l}
			fds := sys.NewFDs(z.fds)
			if err := f.pair.Thaw(flow.NewDecoder(z.state[:cut]), fds, l, &relay.Config{}, &f.ends[0], &f.ends[1], f); err == nil {
				t.Errorf("cut to %d of %d bytes: no error", cut, len(z.state))
			}
			fds.Close()
		})
		for _, fd := range z.fds {
			if fd.Valid() {
				t.Errorf("cut to %d of %d bytes: a descriptor is open", cut, len(z.state))
			}
		}
		expectReset(t, f.client)
		expectReset(t, f.server)
	}
}
