package logs

import (
	"io"
	"net/netip"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/flow"
)

// BenchmarkRecord is the line of one flow, without the write.
func BenchmarkRecord(b *testing.B) {
	levels, err := ParseLevels("")
	if err != nil {
		b.Fatal(err)
	}
	for _, format := range []Format{Plain, JSON} {
		b.Run(format.String(), func(b *testing.B) {
			w := accessWriter{out: New(io.Discard, format, levels), line: line{format: format}}
			at := netip.MustParseAddrPort("192.0.2.7:41234")
			r := &flow.Record{
				Tuple: flow.Tuple{Client: at, Dst: at}, Upstream: at, Source: at, Path: flow.Inbound, Verdict: flow.Direct,
				Reason: flow.CloseEOF, Pod: &flow.Pod{Name: "cart-0", Namespace: "shop"},
			}
			b.ReportAllocs()
			for b.Loop() {
				w.record(r)
			}
		})
	}
}
