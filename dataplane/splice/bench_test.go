package splice_test

import (
	"io"
	"testing"

	"github.com/sluice-mesh/sluice/bench/measure"
	"github.com/sluice-mesh/sluice/dataplane/splice"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// BenchmarkGetPut is what a direction pays for its pipe in each turn.
func BenchmarkGetPut(b *testing.B) {
	p := splice.NewPool(splice.Config{})
	defer p.Close()
	p.Put(p.Get())
	b.ReportAllocs()
	op := func() { p.Put(p.Get()) }
	for b.Loop() {
		op()
	}
	measure.PerOp(b, 0, op)
}

// BenchmarkFillDrain moves a block from one socket to another; the writing and
// reading of the test is part of it.
func BenchmarkFillDrain(b *testing.B) {
	p := splice.NewPool(splice.Config{})
	defer p.Close()
	source, in := testkit.TCPPair(b, testkit.TCPOptions{})
	sink, out := testkit.TCPPair(b, testkit.TCPOptions{})
	block := make([]byte, 64<<10)
	pipe := p.Get()
	defer p.Put(pipe)
	b.SetBytes(int64(len(block)))
	b.ReportAllocs()
	op := func() {
		if _, err := source.Write(block); err != nil {
			b.Fatal(err)
		}
		for moved := 0; moved < len(block); {
			if _, err := pipe.Fill(in); err != nil && err != sys.EAGAIN {
				b.Fatal(err)
			}
			for pipe.Held() > 0 {
				n, err := pipe.Drain(out)
				if err != nil {
					b.Fatal(err)
				}
				moved += n
			}
		}
		if _, err := io.ReadFull(sink, block); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		op()
	}
	measure.PerOp(b, 0, op)
}
