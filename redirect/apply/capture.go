package apply

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/redirect"
	"github.com/sluice-mesh/sluice/redirect/nft"
	"github.com/sluice-mesh/sluice/redirect/rt"
)

// A Result says what Capture did.
type Result struct {
	// Already is true when the pod was captured before; no connection was reset.
	Already bool
	// Reset connections were older than the rules and have been reset.
	Reset int
	// Left connections are older than the rules and could not be reset, because
	// the kernel lacks SOCK_DESTROY: the proxy's listener answers what they send
	// next with a reset.
	Left int
}

// Capture puts the table in place, in one transaction, and resets connections
// that are older than it. The proxy must listen by now: without it no new
// connection comes through. Safe to repeat: a table that is there is made anew,
// and then no connection is reset.
//
// Old connections are reset before the transaction, when their resets still
// reach the peer, and once more after it, for what was opened in between. One
// that begins in the instant before the commit ends when it next sends.
func Capture(ns *netns.Handle, in redirect.Intent) (Result, error) {
	var res Result
	plan, err := redirect.NewPlan(in)
	if err != nil {
		return res, err
	}
	if err := admit(ns); err != nil {
		return res, err
	}
	if res.Already, err = nft.Holds(ns, plan.Table); err != nil {
		return res, err
	}
	if res.Already {
		return res, nft.Commit(ns, plan.Table)
	}
	// No connection is reset for a table that can't be made.
	if err := possible(ns, plan); err != nil {
		return res, err
	}
	old, err := uncaptured(ns, plan)
	if err != nil {
		return res, err
	}
	if len(old) > 0 { // else the list is as fresh as it can be
		if err := res.reset(ns, old); err != nil {
			return res, err
		}
		if old, err = uncaptured(ns, plan); err != nil {
			return res, err
		}
	}
	if err := nft.Commit(ns, plan.Table); err != nil {
		return res, err
	}
	return res, res.reset(ns, old)
}

// reset ends connections. What the first pass had to leave is in the second's
// list again, and counted once.
func (r *Result) reset(ns *netns.Handle, old []rt.Socket) error {
	done, err := rt.Reset(ns, old)
	r.Reset += done
	if errors.Is(err, sys.ErrUnsupported) {
		r.Left, err = len(old)-done, nil
	}
	return err
}

// uncaptured lists the connections of ns that the table is going to be in the
// way of: neither the proxy's, nor within the namespace, nor to or from an
// address that is never captured.
func uncaptured(ns *netns.Handle, plan redirect.Plan) ([]rt.Socket, error) {
	conn, err := rt.Open(ns)
	if err != nil {
		return nil, err
	}
	own, err := conn.Addresses()
	conn.Close()
	if err != nil {
		return nil, err
	}
	all, err := rt.Sockets(ns, 0, 0)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(s rt.Socket) bool {
		remote := s.Remote.Addr().WithZone("")
		return s.Mark&redirect.MarkMask == redirect.MarkProxy ||
			slices.Contains(own, remote) ||
			slices.ContainsFunc(plan.Spared, func(p netip.Prefix) bool { return p.Contains(remote) })
	}), nil
}
