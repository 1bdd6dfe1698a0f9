package dial_test

import (
	"testing"
	"unsafe"

	"github.com/sluice-mesh/sluice/dataplane/dial"
)

func TestDialingBudget(t *testing.T) {
	const dialingBytes = 48 // one is in a session
	if got := unsafe.Sizeof(dial.Dialing{}); got > dialingBytes {
		t.Errorf("a dialing is %d bytes; budget %d", got, dialingBytes)
	}
}

func TestChooseBudget(t *testing.T) {
	p := dial.NewPorts(nil)
	var by dial.Binder = kernel(nil)
	n := uint16(0)
	if got := testing.AllocsPerRun(1000, func() {
		n++
		port, _, _, err := p.Choose(from(40000+n), app, by)
		if err != nil {
			t.Fatal(err)
		}
		p.Hold(from(40000+n), app)
		p.Release(from(40000+n), app)
		p.Release(from(port), app)
	}); got > 0 {
		t.Errorf("%v allocations per port; budget 0", got)
	}
}
