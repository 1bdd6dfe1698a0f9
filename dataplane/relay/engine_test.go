package relay_test

import (
	"crypto/sha256"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/buf"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/relay"
	"github.com/sluice-mesh/sluice/dataplane/splice"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

// hashing writes seeded random bytes in pieces that fit nothing, and returns
// their hash.
func hashing(c *net.TCPConn, total int, seed byte) (sum [sha256.Size]byte, err error) {
	h := sha256.New()
	r := rand.NewChaCha8([32]byte{seed})
	b := make([]byte, 1<<20)
	for total > 0 {
		p := b[:min(total, 1+int(r.Uint64()%uint64(len(b))))]
		r.Read(p)
		h.Write(p)
		if _, err := c.Write(p); err != nil {
			return sum, err
		}
		total -= len(p)
	}
	return [sha256.Size]byte(h.Sum(nil)), c.CloseWrite()
}

// reading reads up to max bytes at a time until EOF and returns their hash.
func reading(c *net.TCPConn, max int) ([sha256.Size]byte, error) {
	h := sha256.New()
	_, err := io.CopyBuffer(struct{ hash.Hash }{h}, struct{ io.Reader }{c}, make([]byte, max))
	return [sha256.Size]byte(h.Sum(nil)), err
}

// watchSinks looks at what is held until the flow ends: at most a block or a pipe
// for each direction. full reports whether there was anything.
func watchSinks(t testing.TB, f *flowing) (full func() bool) {
	seen := make(chan bool, 1)
	go func() {
		any := false
		for f.told.Load() == 0 {
			f.l.Do(func() {
				m := &f.l.Metrics
				blocks, bytes, pipes := m.Level(metric.HeldBlocks), m.Level(metric.HeldBytes), m.Level(metric.PipesInUse)
				if blocks+pipes > 2 || bytes > blocks*buf.BlockBytes || bytes < blocks {
					t.Errorf("%d blocks with %d bytes and %d pipes are held", blocks, bytes, pipes)
				}
				any = any || blocks+pipes > 0
			})
		}
		seen <- any
	}()
	return func() bool { return testkit.Receive(t, testkit.Wait, "the flow ends", seen) }
}

// Random bytes both ways at once, to readers with small buffers that read small
// pieces: each engine carries them all, unchanged.
func TestManyBytes(t *testing.T) {
	testkit.NoLeaks(t)
	for _, tt := range []struct {
		name  string
		cfg   relay.Config
		pipes splice.Config
		opts  testkit.TCPOptions
		total int
		read  int
		by    metric.Counter // the engine that must have carried 99 %
	}{
		{"splice", relay.Config{}, splice.Config{}, testkit.TCPOptions{}, 48 << 20, 1 << 20, metric.SplicedBytes},
		{"splice, slow readers", relay.Config{}, splice.Config{}, testkit.TCPOptions{FarReadBuffer: 4 << 10}, 48 << 20, 1500, metric.SplicedBytes},
		{"splice, one pipe for both", relay.Config{}, splice.Config{Pipes: 1}, testkit.TCPOptions{FarReadBuffer: 4 << 10}, 8 << 20, 1500, metric.SplicedBytes},
		{"copy", relay.Config{NoSplice: true}, splice.Config{}, testkit.TCPOptions{}, 32 << 20, 1 << 20, metric.CopiedBytes},
		{"copy, slow readers", relay.Config{NoSplice: true}, splice.Config{}, testkit.TCPOptions{FarReadBuffer: 4 << 10}, 16 << 20, 1500, metric.CopiedBytes},
		{"no pipe to be had", relay.Config{}, splice.Config{Pipes: -1}, testkit.TCPOptions{}, 16 << 20, 1 << 20, metric.CopiedBytes},
	} {
		t.Run(tt.name, func(t *testing.T) {
			start := time.Now()
			l := onloop.Start(t, 0, loop.Config{Pipes: tt.pipes, PanicEnds: true})
			f := join(t, l, tt.cfg, tt.opts)
			var wg sync.WaitGroup
			for i, way := range []struct{ from, to *net.TCPConn }{{f.client, f.server}, {f.server, f.client}} {
				var sent [sha256.Size]byte
				sending := make(chan error, 1)
				go func() {
					var err error
					sent, err = hashing(way.from, tt.total, byte(i))
					sending <- err
				}()
				wg.Go(func() {
					got, err := reading(way.to, tt.read)
					if serr := <-sending; err != nil || serr != nil || got != sent {
						t.Errorf("way %d: send %v, read %v, hashes equal: %v", i, serr, err, got == sent)
					}
				})
			}
			full := watchSinks(t, f)
			wg.Wait()
			got := f.wait(t)
			if !full() && tt.opts.FarReadBuffer > 0 {
				t.Error("no sink was ever full: this test shows nothing")
			}
			if got.why != flow.CloseEOF || got.counts.Up != uint64(tt.total) || got.counts.Down != uint64(tt.total) {
				t.Errorf("ended with %v, %v, %+v", got.why, got.err, got.counts)
			}
			m := figures(t, l)
			copied, spliced := m.Count(metric.CopiedBytes), m.Count(metric.SplicedBytes)
			if copied+spliced != uint64(2*tt.total) || m.Count(metric.UpBytes) != uint64(tt.total) || spliced != got.counts.UpSpliced+got.counts.DownSpliced {
				t.Errorf("copied %d, spliced %d, up %d; counts %+v", copied, spliced, m.Count(metric.UpBytes), got.counts)
			}
			if carried := m.Count(tt.by); carried < uint64(2*tt.total)/100*99 && tt.pipes.Pipes != 1 {
				t.Errorf("%s carried %d of %d bytes; want 99 %%", tt.by.Describe().Name, carried, 2*tt.total)
			}
			t.Logf("%v: copied %d, spliced %d, promoted %d, demoted %d, no pipe %d", time.Since(start), copied, spliced,
				m.Count(metric.Promoted), m.Count(metric.Demoted), m.Count(metric.PipesExhausted))
		})
	}
}

// A sender whose reader does not read comes to a halt: what is held is one block
// or the bytes of one pipe for each direction, and the rest stays in the kernel.
func TestBackPressure(t *testing.T) {
	testkit.NoLeaks(t)
	for _, cfg := range []relay.Config{{}, {NoSplice: true}} {
		l := onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true})
		f := join(t, l, cfg, testkit.TCPOptions{FarReadBuffer: 16 << 10, NearBuffers: 128 << 10})
		watch := watchSinks(t, f)
		go flood(f.client)
		go flood(f.server)
		stalled(t, f)
		before := figures(t, l)
		if n := before.Level(metric.HeldBlocks) + before.Level(metric.PipesInUse); n != 2 {
			t.Errorf("no splice: %v: %d blocks and pipes are held; want one for each direction", cfg.NoSplice, n)
		}
		// Once somebody reads it goes on, both ways.
		for _, c := range []*net.TCPConn{f.client, f.server} {
			if _, err := io.CopyN(io.Discard, c, 8<<20); err != nil {
				t.Errorf("no splice: %v: %v", cfg.NoSplice, err)
			}
		}
		testkit.ResetTCP(t, f.client)
		f.wait(t)
		if !watch() {
			t.Error("nothing was ever held")
		}
	}
}

// A direction is spliced once three reads in a row were full, or more of them nearly
// so, and copied again when its source is no bulk any more.
func TestPromotion(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true})
	f := join(t, l, relay.Config{}, testkit.TCPOptions{FarReadBuffer: 4 << 20, NearBuffers: 4 << 20})
	// move has the loop find n bytes at once.
	move := func(n int) {
		t.Helper()
		onloop.Do(t, l, func() { send(t, f.client, n) })
		expect(t, f.server, n)
	}
	check := func(what string, promoted, demoted uint64, splicing bool) {
		t.Helper()
		m := figures(t, l)
		var up, down bool
		onloop.Do(t, l, func() { up, down = f.pair.Splicing() })
		if m.Count(metric.Promoted) != promoted || m.Count(metric.Demoted) != demoted || up != splicing || down {
			t.Errorf("%s: promoted %d, demoted %d, splicing %v up and %v down; want %d, %d, %v, false",
				what, m.Count(metric.Promoted), m.Count(metric.Demoted), up, down, promoted, demoted, splicing)
		}
	}
	for range 10 {
		move(1000)
	}
	check("small messages", 0, 0, false)
	move(2 * buf.BlockBytes)
	move(1000)
	check("two full reads, then a small one", 0, 0, false)
	move(5 * buf.BlockBytes)
	check("five full reads", 1, 0, true)
	before := figures(t, l)
	move(1 << 20)
	after := figures(t, l)
	if n := after.Count(metric.SplicedBytes) - before.Count(metric.SplicedBytes); n != 1<<20 {
		t.Errorf("a direction that is promoted spliced %d of %d bytes", n, 1<<20)
	}
	move(1000)
	move(1000)
	move(1 << 20)
	move(1000)
	move(1000)
	check("never three small bursts in a row", 1, 0, true)
	move(1000)
	check("three small bursts", 1, 1, false)
	move(5 * buf.BlockBytes)
	check("bulk again", 2, 1, true)
	// A second of idleness.
	last := time.Now()
	testkit.Eventually(t, testkit.Wait, "a second is over", func() bool { return time.Since(last) > 1050*time.Millisecond })
	before = figures(t, l)
	move(1000)
	check("idle", 2, 2, false)
	after = figures(t, l)
	if n := after.Count(metric.CopiedBytes) - before.Count(metric.CopiedBytes); n != 1000 {
		t.Errorf("after a second of idleness %d of 1000 bytes were copied; want all", n)
	}
	for range 20 {
		move(24 << 10)
	}
	check("reads of 24 KiB", 2, 2, false)
	for range 20 {
		move(44 << 10)
	}
	check("reads of 44 KiB, as large as a small window", 3, 2, true)
}

// A sink that holds bytes does not keep its direction from being spliced once they
// are gone, and none of them is overtaken.
func TestPromotionAfterHolding(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true})
	f := join(t, l, relay.Config{}, testkit.TCPOptions{FarReadBuffer: 8 << 10, NearBuffers: 160 << 10})
	const total = 4 << 20
	go func() {
		f.client.Write(pattern(total))
		f.client.CloseWrite()
	}()
	stalled(t, f)
	expect(t, f.server, total)
	expectEOF(t, f.server)
	f.server.Close()
	if got := f.wait(t); got.counts.UpSpliced == 0 || got.counts.Up != total {
		t.Errorf("%+v; want all bytes, and some of them spliced", got.counts)
	}
}

// Two flows that want one pipe: both go on, whoever has it.
func TestPipesExhausted(t *testing.T) {
	testkit.NoLeaks(t)
	l := onloop.Start(t, 0, loop.Config{Pipes: splice.Config{Pipes: 1}, PanicEnds: true})
	opts := testkit.TCPOptions{FarReadBuffer: 16 << 10, NearBuffers: 512 << 10}
	first := join(t, l, relay.Config{}, opts)
	second := join(t, l, relay.Config{}, opts)
	go flood(first.client)
	testkit.Eventually(t, testkit.Wait, "the first has the pipe", func() bool {
		m := figures(t, l)
		return m.Level(metric.PipesInUse) == 1
	})
	stalled(t, first)
	go func() {
		defer second.client.Close()
		second.client.Write(pattern(4 << 20))
	}()
	expect(t, second.server, 4<<20)
	expectEOF(t, second.server)
	second.server.Close()
	if got := second.wait(t); got.why != flow.CloseEOF || got.counts.UpSpliced != 0 {
		t.Errorf("ended with %v, %+v; want eof and nothing spliced", got.why, got.counts)
	}
	if m := figures(t, l); m.Count(metric.PipesExhausted) == 0 {
		t.Error("that there was no pipe was not counted")
	}
	testkit.ResetTCP(t, first.client)
	first.wait(t)
}
