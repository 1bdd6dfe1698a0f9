package dial_test

import (
	"testing"

	"github.com/sluice-mesh/sluice/bench/measure"
	"github.com/sluice-mesh/sluice/dataplane/dial"
)

// BenchmarkChoose finds a port for a flow beside 5 000 others of its client, and
// gives it back.
func BenchmarkChoose(b *testing.B) {
	p := dial.NewPorts(nil)
	var by dial.Binder = kernel(nil)
	for range 5000 {
		if _, _, _, err := p.Choose(from(40000), app, by); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	skips := 0
	op := func() {
		port, skipped, _, err := p.Choose(from(40000), app, by)
		if err != nil {
			b.Fatal(err)
		}
		skips += skipped
		p.Release(from(port), app)
	}
	for b.Loop() {
		op()
	}
	b.ReportMetric(float64(skips)/float64(b.N), "skips/op")
	measure.PerOp(b, 0, op)
}
