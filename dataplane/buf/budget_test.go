package buf_test

import (
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/buf"
)

func TestPoolBudget(t *testing.T) {
	p := buf.NewPool(heap, nil, false)
	get(t, p).Release()
	if got := testing.AllocsPerRun(100, func() { get(t, p).Release() }); got > 0 {
		t.Errorf("%v allocations per block; budget 0", got)
	}
}
