//go:build checked

package sys

import (
	"fmt"
	"maps"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Checked reports a build with the "checked" tag, in which ownership of
// descriptors, loop threads and blocks is verified.
const Checked = true

var (
	tracked   = map[int]string{} // descriptor to the stack that put it into an FD
	trackedMu sync.Mutex
	calls     atomic.Uint64
)

func trackOpen(raw int) {
	trackedMu.Lock()
	defer trackedMu.Unlock()
	if at, twice := tracked[raw]; twice {
		panic(fmt.Sprintf("sys: descriptor %d has two owners; the first was made at\n%s", raw, at))
	}
	tracked[raw] = string(debug.Stack())
}

func trackClosed(raw int) {
	trackedMu.Lock()
	defer trackedMu.Unlock()
	if _, ok := tracked[raw]; !ok {
		panic(fmt.Sprintf("sys: descriptor %d has no owner", raw))
	}
	delete(tracked, raw)
}

func countCall() { calls.Add(1) }

// Calls is the number of system calls made through this package; it counts in
// builds with the "checked" tag only.
func Calls() uint64 { return calls.Load() }

// OpenFDs lists the descriptors that an FD owns with the stack that made each;
// in builds with the "checked" tag only.
func OpenFDs() map[int]string {
	trackedMu.Lock()
	defer trackedMu.Unlock()
	return maps.Clone(tracked)
}
