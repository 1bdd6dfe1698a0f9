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

// ShowsInInit is how the host's namespace is told where it can't be looked up.
var ShowsInInit = showsInInit
