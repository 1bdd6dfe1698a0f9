//go:build checked

package sys_test

import (
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// A second owner of a descriptor is found with the stack of the first.
func TestCheckedOwners(t *testing.T) {
	f := newFD(t)
	if stack := sys.OpenFDs()[f.Raw()]; !strings.Contains(stack, "newFD") {
		t.Errorf("the descriptor is noted as made at %q", stack)
	}
	if text := panics(func() { sys.NewFD(f.Raw()) }); !strings.Contains(text, "two owners") || !strings.Contains(text, "newFD") {
		t.Errorf("a second owner: %q", text)
	}
	raw := f.Take()
	if _, noted := sys.OpenFDs()[raw]; noted {
		t.Error("a descriptor that was taken out is still noted")
	}
	f.Set(raw)
}

func TestCheckedCountsCalls(t *testing.T) {
	f := newFD(t)
	before := sys.Calls()
	sys.Read(f, make([]byte, 8))
	if got := sys.Calls() - before; got < 1 {
		t.Errorf("%d calls counted; want the read", got)
	}
}
