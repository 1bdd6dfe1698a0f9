package apply

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/redirect"
	"github.com/sluice-mesh/sluice/redirect/nft"
	"github.com/sluice-mesh/sluice/redirect/rt"
)

// ErrFlowsLive is wrapped by the FlowsLiveError with which Remove refuses.
var ErrFlowsLive = errors.New("flows of the proxy are live")

// FlowsLiveError says how many sockets of the proxy live in a namespace.
type FlowsLiveError struct{ Count int }

func (e *FlowsLiveError) Error() string {
	return fmt.Sprintf("%d sockets of the proxy are live here; wait until they have ended, or force the removal, which resets them", e.Count)
}

// Unwrap makes errors.Is(err, ErrFlowsLive) true.
func (e *FlowsLiveError) Unwrap() error { return ErrFlowsLive }

// RemoveOptions say how Remove goes about it.
type RemoveOptions struct {
	// Force resets the proxy's sockets where Remove would refuse.
	Force bool
}

// Removed says what Remove found and took away.
type Removed struct {
	Reset   int  // sockets of the proxy that were reset
	Table   bool // the nf_tables table was there
	Rules   int  // policy rules
	Routes  int
	Sysctls int // put back to their old values
}

// resetFor bounds how long a removal resets what the proxy opens anew.
const resetFor = 5 * time.Second

// Remove takes the table, the policy rules and the routes away and puts the
// sysctls back, in this order and from any state, also when nothing is there.
// While sockets of the proxy live it refuses with a FlowsLiveError: without the
// table what the application sends on them would go to the real peer in the
// clear, and without rules or routes they would hang.
//
// When a step fails those behind it are left as they are, and Remove can be
// called again.
func Remove(ns *netns.Handle, dir StateDir, opt RemoveOptions) (Removed, error) {
	var gone Removed
	plan, err := redirect.NewPlan(redirect.Intent{})
	if err != nil {
		return gone, err
	}
	if err := admit(ns); err != nil {
		return gone, err
	}
	if err := gone.clear(ns, opt); err != nil {
		return gone, err
	}
	if gone.Table, err = nft.Delete(ns, plan.Table.Name); err != nil {
		return gone, err
	}
	conn, err := rt.Open(ns)
	if err != nil {
		return gone, err
	}
	defer conn.Close()
	for _, r := range plan.Rules {
		was, err := conn.DelRule(r)
		if err != nil {
			return gone, err
		}
		gone.Rules += count(was)
	}
	for _, r := range plan.Routes {
		was, err := conn.DelRoute(r)
		if err != nil {
			return gone, err
		}
		gone.Routes += count(was)
	}
	gone.Sysctls, err = putBack(ns, plan.Sysctls, dir)
	return gone, err
}

// Live counts the proxy's sockets in ns that can still carry data.
func Live(ns *netns.Handle) (int, error) {
	list, err := rt.Sockets(ns, redirect.MarkProxy, redirect.MarkMask)
	return len(list), err
}

// clear makes sure that no socket of the proxy lives in ns, and none comes.
func (r *Removed) clear(ns *netns.Handle, opt RemoveOptions) error {
	n, err := Live(ns)
	if err != nil {
		return err
	}
	if n > 0 && !opt.Force {
		return fmt.Errorf("%v: %w", ns.ID(), &FlowsLiveError{n})
	}
	// A flow that begins between this count and the table's end would go on in the
	// clear. So nothing new is captured from here on, and what began just before is
	// reset, be it by force or not. This comes to an end: the proxy can only finish
	// what it has accepted.
	if err := nft.Insert(ns, redirect.Seal()); err != nil {
		return err
	}
	for deadline := time.Now().Add(resetFor); ; {
		n, err := r.reset(ns)
		if err != nil || n == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%v: the proxy opens sockets as fast as they are reset; stop it first: %w", ns.ID(), &FlowsLiveError{n})
		}
	}
}

// reset ends the proxy's sockets that it finds, and counts them.
func (r *Removed) reset(ns *netns.Handle) (int, error) {
	list, err := rt.Sockets(ns, redirect.MarkProxy, redirect.MarkMask)
	if err != nil {
		return 0, err
	}
	n, err := rt.Reset(ns, list)
	r.Reset += n
	return n, err
}

func count(was bool) int {
	if was {
		return 1
	}
	return 0
}
