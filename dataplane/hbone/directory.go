package hbone

import (
	"maps"
	"sync/atomic"

	"github.com/sluice-mesh/sluice/dataplane/loop"
)

// A Directory says which loop has the tunnel for a key, so that flows for it go
// there. It is an immutable map behind one pointer: who reads takes no lock, and who
// changes it makes a new one. From anywhere.
type Directory struct {
	at atomic.Pointer[map[Key]*loop.Loop]
}

// Place returns the loop for k: where its tunnel is, or else the one that pick
// chooses, which is noted.
func (d *Directory) Place(k Key, pick func() *loop.Loop) *loop.Loop {
	for {
		old := d.at.Load()
		var next map[Key]*loop.Loop
		if old != nil {
			if l := (*old)[k]; l != nil {
				return l
			}
			next = maps.Clone(*old)
		} else {
			next = map[Key]*loop.Loop{}
		}
		l := pick()
		next[k] = l
		if d.at.CompareAndSwap(old, &next) {
			return l
		}
	}
}

// remove forgets that l has the tunnel for k.
func (d *Directory) remove(k Key, l *loop.Loop) {
	for {
		old := d.at.Load()
		if old == nil || (*old)[k] != l {
			return
		}
		next := maps.Clone(*old)
		delete(next, k)
		if d.at.CompareAndSwap(old, &next) {
			return
		}
	}
}
