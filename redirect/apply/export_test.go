package apply

import (
	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/redirect"
)

// PrepareAndUndo prepares ns, calls between, and takes back what it did: what
// Apply does when its second half fails.
func PrepareAndUndo(ns *netns.Handle, in redirect.Intent, dir StateDir, between func()) error {
	undo, err := prepare(ns, in, dir)
	if err != nil {
		return err
	}
	between()
	return undo.run()
}

// HoldsProcess is how the host's namespace is told where the link to that of
// process 1 can't be read.
var HoldsProcess = holdsProcess
