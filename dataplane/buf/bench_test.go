package buf_test

import (
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/buf"
)

func BenchmarkGetRelease(b *testing.B) {
	p := buf.NewPool(heap, nil, false)
	b.ReportAllocs()
	for b.Loop() {
		block, err := p.Get()
		if err != nil {
			b.Fatal(err)
		}
		block.Release()
	}
}
