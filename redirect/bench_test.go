package redirect

import (
	"testing"

	"github.com/sluice-mesh/sluice/bench/measure"
)

// BenchmarkPlan makes the plan of one pod from its intent as text, with all that
// can be asked for.
func BenchmarkPlan(b *testing.B) {
	text := []byte(`{"mode":"direct","dns":true,"require":["socket"]}`)
	op := func() {
		in, err := ParseIntent(text)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := NewPlan(in); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		op()
	}
	measure.PerOp(b, 0, op)
}
