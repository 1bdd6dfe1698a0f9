package netns

import "github.com/sluice-mesh/sluice/dataplane/sys"

// lostEvents reports that the kernel dropped events because they were not read
// in time (netlink(7)).
func lostEvents(err error) bool { return sys.ErrnoOf(err) == sys.ENOBUFS }
