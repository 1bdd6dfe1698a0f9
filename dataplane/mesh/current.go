package mesh

import "sync/atomic"

// A Current holds the newest snapshot. The zero Current holds an empty one. It must
// not be copied.
type Current struct {
	newest atomic.Pointer[Snapshot]
	none   Snapshot // before the first Publish
}

// Load returns the newest snapshot, never nil. Who makes several lookups for one
// decision makes them in one snapshot.
func (c *Current) Load() *Snapshot {
	if s := c.newest.Load(); s != nil {
		return s
	}
	return &c.none
}

// Publish makes s the newest.
func (c *Current) Publish(s *Snapshot) { c.newest.Store(s) }
