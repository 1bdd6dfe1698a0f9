// Package route turns what is known of a flow into a Verdict. It is pure.
//
// Data enters by Decide: the path, the tuple and the pod's own addresses. So
// far it knows only Direct and Deny.
package route

import (
	"net/netip"

	"github.com/sluice-mesh/sluice/dataplane/flow"
)

// The ports that the proxy listens on inside a pod.
const (
	PortOutbound = 15001
	PortInbound  = 15006
	PortHBONE    = 15008
	PortDNS      = 15053
)

// IsProxyPort reports a port on which the proxy itself listens in a pod.
func IsProxyPort(port uint16) bool {
	switch port {
	case PortOutbound, PortInbound, PortHBONE, PortDNS:
		return true
	}
	return false
}

// Straight reports a destination that is the proxy itself: nobody may use the
// proxy's ports as an open relay, and dialling them would lead back into it.
func Straight(dst netip.AddrPort, own flow.Addrs) bool {
	return IsProxyPort(dst.Port()) && (dst.Addr().IsLoopback() || own.Has(dst.Addr()))
}

// Decide says what to do with a flow that was captured on path. own are the
// addresses of its pod.
func Decide(path flow.Path, t flow.Tuple, own flow.Addrs) flow.Verdict {
	if Straight(t.Dst, own) {
		return flow.Verdict{Kind: flow.Deny, Why: flow.CloseStraight}
	}
	v := flow.Verdict{Kind: flow.Direct, To: t.Dst}
	client := t.Client.Addr()
	switch path {
	case flow.Inbound:
		v.Application = true
		// A client that is the destination can't be spoofed: the application
		// would answer itself. A link-local one can't be either: its answers
		// can't be routed back to lo.
		if client != t.Dst.Addr() && !client.IsLinkLocalUnicast() {
			v.Source = client
		}
	case flow.Outbound:
		if own.Has(client) && !client.IsLinkLocalUnicast() {
			v.Source = client
		}
	}
	return v
}
