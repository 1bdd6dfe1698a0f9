package relay_test

import (
	"testing"

	"github.com/sluice-mesh/sluice/bench/measure"
	"github.com/sluice-mesh/sluice/dataplane/buf"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/relay"
	"github.com/sluice-mesh/sluice/dataplane/splice"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

var roomy = testkit.TCPOptions{FarReadBuffer: 4 << 20, NearBuffers: 4 << 20}

// thread is the one that l runs on.
func thread(t testing.TB, l *loop.Loop) (tid int) {
	t.Helper()
	onloop.Do(t, l, func() { tid = sys.Gettid() })
	return tid
}

// bench repeats an exchange of n bytes there and back.
func bench(b *testing.B, cfg relay.Config, n int) {
	l := onloop.Start(b, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true})
	f := join(b, l, cfg, roomy)
	exchange := echoer(b, f, n)
	exchange()
	b.SetBytes(int64(2 * n))
	b.ReportAllocs()
	for b.Loop() {
		exchange()
	}
	measure.PerOp(b, thread(b, l), exchange)
}

// BenchmarkExchange is a request and a response of 100 bytes: two events.
func BenchmarkExchange(b *testing.B) { bench(b, relay.Config{}, 100) }

// BenchmarkCopy and BenchmarkSplice move 2 MiB there and back.
func BenchmarkCopy(b *testing.B)   { bench(b, relay.Config{NoSplice: true}, 2<<20) }
func BenchmarkSplice(b *testing.B) { bench(b, relay.Config{}, 2<<20) }

// BenchmarkPromotion is what a direction pays to become spliced and to stop: five
// full blocks at once, then three small messages. The writes of the bulk are the loop's as well.
func BenchmarkPromotion(b *testing.B) {
	l := onloop.Start(b, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true})
	f := join(b, l, relay.Config{}, roomy)
	bulk, small := make([]byte, 5*buf.BlockBytes), make([]byte, 100)
	got := make([]byte, len(bulk))
	move := func(p []byte) {
		onloop.Do(b, l, func() {
			if _, err := f.client.Write(p); err != nil {
				b.Error(err)
			}
		})
		for have := 0; have < len(p); {
			n, err := f.server.Read(got)
			if err != nil {
				b.Fatal(err)
			}
			have += n
		}
	}
	cycle := func() {
		move(bulk)
		move(small)
		move(small)
		move(small)
	}
	b.ReportAllocs()
	for b.Loop() {
		cycle()
	}
	m := figures(b, l)
	b.ReportMetric(float64(m.Count(metric.Promoted))/float64(b.N), "promotions/op")
	measure.PerOp(b, thread(b, l), cycle)
}
