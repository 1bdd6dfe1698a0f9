package relay_test

import (
	"io"
	"testing"
	"unsafe"

	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/relay"
	"github.com/sluice-mesh/sluice/dataplane/splice"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

// Budgets of what a flow has here; BENCHMARKS.md says what raising one bought.
const pairBytes = 216

func TestPairBudget(t *testing.T) {
	if got := unsafe.Sizeof(relay.Pair{}); got > pairBytes {
		t.Errorf("a pair is %d bytes; budget %d", got, pairBytes)
	}
}

// echoer moves n bytes from the client to the server and back.
func echoer(t testing.TB, f *flowing, n int) func() {
	b := make([]byte, n)
	return func() {
		for _, way := range [][2]io.ReadWriter{{f.client, f.server}, {f.server, f.client}} {
			if _, err := way[0].Write(b); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(way[1], b); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Moving bytes allocates nothing, whatever carries them and however full the
// sinks are.
func TestPumpBudget(t *testing.T) {
	for _, tt := range []struct {
		name  string
		bytes int
		cfg   relay.Config
		opts  testkit.TCPOptions
	}{
		{"small messages", 100, relay.Config{}, testkit.TCPOptions{}},
		{"spliced", 2 << 20, relay.Config{}, testkit.TCPOptions{FarReadBuffer: 4 << 20, NearBuffers: 4 << 20}},
		{"copied", 2 << 20, relay.Config{NoSplice: true}, testkit.TCPOptions{FarReadBuffer: 4 << 20, NearBuffers: 4 << 20}},
		{"held", 300 << 10, relay.Config{NoSplice: true}, testkit.TCPOptions{FarReadBuffer: 512 << 10, NearBuffers: 32 << 10}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true})
			f := join(t, l, tt.cfg, tt.opts)
			exchange := echoer(t, f, tt.bytes)
			exchange()
			if got := testing.AllocsPerRun(50, exchange); got > 0 {
				t.Errorf("%v allocations per exchange; budget 0", got)
			}
			m := figures(t, l)
			if spliced := m.Count(metric.SplicedBytes); (spliced > 0) != (tt.name == "spliced") {
				t.Errorf("%d bytes were spliced", spliced)
			}
		})
	}
}
