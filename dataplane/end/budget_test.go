package end_test

import (
	"testing"
	"unsafe"

	"github.com/sluice-mesh/sluice/dataplane/end"
)

func TestSocketBudget(t *testing.T) {
	const socketBytes = 64 // two are in a session
	if got := unsafe.Sizeof(end.Socket{}); got > socketBytes {
		t.Errorf("a socket is %d bytes; budget %d", got, socketBytes)
	}
}
