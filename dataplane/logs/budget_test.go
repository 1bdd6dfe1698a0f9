package logs

import (
	"bytes"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/flow"
)

const recordAllocs = 0 // heap allocations per line of a flow

// The line of a flow costs no allocation once its buffers have grown.
func TestRecordBudget(t *testing.T) {
	levels, err := ParseLevels("")
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []Format{Plain, JSON} {
		var sink bytes.Buffer
		o := New(&sink, format, levels)
		w := accessWriter{out: o, line: line{format: format}}
		r := &flow.Record{Path: flow.Outbound, Verdict: flow.Direct, Reason: flow.CloseIdle, Pod: &flow.Pod{Name: "cart-0", Namespace: "shop"}}
		one := func() {
			w.record(r)
			w.flush()
			sink.Reset()
		}
		one()
		if got := testing.AllocsPerRun(100, one); got > recordAllocs {
			t.Errorf("%v: %v allocations per line; budget %d", format, got, recordAllocs)
		}
	}
}
