// Package apply puts capture into a pod's network namespace, and takes it out.
//
// Data enters as a namespace and an Intent. Prepare does what must be there
// before the proxy listens, Capture what must come after, Apply both, Remove
// takes everything back from whatever state it finds. Nothing half done is left:
// the table is one transaction, and a step that fails takes back what it did.
//
// Owns, in a namespace: table inet sluice, route table 100, the policy rules of
// preference 10 and 11 that point to it, and the values of three sysctls, whose
// old ones are in the StateDir. Never touches the host's own namespace.
package apply

import (
	"errors"
	"fmt"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/redirect"
)

// ErrFlowsLive is wrapped by the FlowsLiveError with which Remove refuses.
var ErrFlowsLive = errors.New("flows of the proxy are live")

// ErrHostNamespace refuses a namespace that is the host's or the caller's own.
var ErrHostNamespace = errors.New("this is the host's own network namespace, which is never programmed as a pod")

// FlowsLiveError says how many sockets of the proxy live in a namespace.
type FlowsLiveError struct{ Count int }

func (e *FlowsLiveError) Error() string {
	return fmt.Sprintf("%d sockets of the proxy are live here; wait until they have ended, or force the removal, which resets them", e.Count)
}

// Unwrap makes errors.Is(err, ErrFlowsLive) true.
func (e *FlowsLiveError) Unwrap() error { return ErrFlowsLive }

// A StateDir is the folder where values are kept that Remove must put back: a
// file for each namespace, written atomically before the first change, named
// for the namespace's cookie, which the kernel never gives to another one. It
// should not outlive a reboot (/run).
type StateDir string

// A Result says what Capture did.
type Result struct {
	// Already is true when the pod was captured before; no connection was reset.
	Already bool
	// Reset connections were older than the rules and have been reset.
	Reset int
	// Left connections are older than the rules and could not be reset by us:
	// they end when they next send.
	Left int
}

// RemoveOptions say how Remove goes about it.
type RemoveOptions struct {
	// Force resets the proxy's sockets where Remove would refuse.
	Force bool
}

// Removed says what Remove found and took away.
type Removed struct {
	Reset   int  // sockets of the proxy that were reset (Force)
	Table   bool // the nf_tables table was there
	Rules   int  // policy rules
	Routes  int
	Sysctls int // put back to their old values
}

// Prepare does what must be there before the proxy listens: sysctls, routes and
// policy rules. Safe to repeat; when it fails it has taken back what it did.
func Prepare(ns *netns.Handle, in redirect.Intent, dir StateDir) error {
	return errors.ErrUnsupported
}

// Capture puts the table in place, in one transaction, and resets connections
// that are older than it. The proxy must listen by now: without it no new
// connection comes through. Safe to repeat.
func Capture(ns *netns.Handle, in redirect.Intent) (Result, error) {
	return Result{}, errors.ErrUnsupported
}

// Apply is Prepare and Capture. When Capture fails it takes back what Prepare did.
func Apply(ns *netns.Handle, in redirect.Intent, dir StateDir) (Result, error) {
	return Result{}, errors.ErrUnsupported
}

// Remove takes the table, the policy rules and the routes away and puts the
// sysctls back, in this order and from any state, also when nothing is there.
// While sockets of the proxy live it refuses with a FlowsLiveError.
func Remove(ns *netns.Handle, dir StateDir, opt RemoveOptions) (Removed, error) {
	return Removed{}, errors.ErrUnsupported
}
