package loop

import (
	"fmt"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// Enter runs fn inside the network namespace ns and comes home. It is for
// making a batch of sockets: about 13 µs, against 65 µs by a helper thread. If
// the thread can't get home the process ends: whatever it made next would be in
// somebody's pod.
func (l *Loop) Enter(ns *sys.FD, fn func() error) error {
	l.onLoop()
	if err := sys.Setns(ns); err != nil {
		return fmt.Errorf("enter network namespace: %w", err)
	}
	defer l.comeHome() // also when fn panics, which may be contained
	return fn()
}

func (l *Loop) comeHome() {
	if err := sys.Setns(l.home); err != nil {
		sys.Abort(fmt.Sprintf("loop %d: leave a pod's network namespace: %v", l.id, err))
	}
}
