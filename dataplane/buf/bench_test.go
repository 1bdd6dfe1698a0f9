package buf_test

import (
	"testing"

	"github.com/sluice-mesh/sluice/bench/measure"
	"github.com/sluice-mesh/sluice/dataplane/buf"
)

func BenchmarkGetRelease(b *testing.B) {
	p := buf.NewPool(heap, nil, false)
	b.ReportAllocs()
	op := func() {
		block, err := p.Get()
		if err != nil {
			b.Fatal(err)
		}
		block.Release()
	}
	for b.Loop() {
		op()
	}
	measure.PerOp(b, 0, op)
}
