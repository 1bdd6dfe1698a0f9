package route_test

import (
	"net/netip"
	"testing"

	"github.com/sluice-mesh/sluice/bench/measure"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/route"
)

func BenchmarkDecide(b *testing.B) {
	tuple := flow.Tuple{Client: netip.MustParseAddrPort("192.0.2.1:40000"), Dst: netip.MustParseAddrPort("198.51.100.1:80")}
	b.ReportAllocs()
	op := func() {
		if route.Decide(flow.Outbound, tuple, pod).Kind != flow.Direct {
			b.Fatal("denied")
		}
	}
	for b.Loop() {
		op()
	}
	measure.PerOp(b, 0, op)
}
