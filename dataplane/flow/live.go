package flow

import (
	"net/netip"
	"time"
)

// An Info is what is known of a live flow at one moment.
type Info struct {
	ID               uint64
	Pod              *Pod
	Path             Path
	Tuple            Tuple
	Upstream, Source netip.AddrPort
	State            string
	Loop             int
	Age              time.Duration
	Counts           Counts
	UpSplicing       bool // which engine carries each direction now
	DownSplicing     bool
	UpEnded          bool // which directions have sent FIN
	DownEnded        bool
	UpHeld           int // bytes that were read and not yet taken, in a block
	DownHeld         int
	UpPipe           int // or in a pipe
	DownPipe         int
}
