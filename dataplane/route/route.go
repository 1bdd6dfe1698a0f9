// Package route turns what is known of a flow into a Verdict. It is pure.
//
// Data enters by Decide and InMesh: the path, the tuple, the pod's own addresses, and
// what is known of the mesh.
package route

import (
	"net/netip"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/mesh"
)

// The ports that the proxy listens on inside a pod.
const (
	PortOutbound = 15001
	PortInbound  = 15006
	PortHBONE    = flow.PortHBONE
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
	case flow.Inbound, flow.InboundHBONE:
		v.Application = true
		// A client that is the destination can't be spoofed: the application
		// would answer itself. A link-local one can't be either: its answers
		// can't be routed back to lo.
		if client != t.Dst.Addr() && !client.IsLinkLocalUnicast() {
			v.Source = client
		}
	case flow.Outbound, flow.OutboundHBONE:
		if own.Has(client) && !client.IsLinkLocalUnicast() {
			v.Source = client
		}
	}
	return v
}

// InMesh is Decide for a node that knows the mesh m: what goes to another workload
// that takes tunnels goes by one.
func InMesh(m *mesh.Snapshot, path flow.Path, t flow.Tuple, own flow.Addrs) flow.Verdict {
	v := Decide(path, t, own)
	dst := t.Dst.Addr()
	if path != flow.Outbound || v.Kind != flow.Direct || own.Has(dst) {
		return v
	}
	if w := m.ByAddr(dst); w != nil && w.Protocol == mesh.HBONE {
		v.Kind = flow.Tunnel
		v.To = netip.AddrPortFrom(dst, PortHBONE)
		v.Peer = flow.Identity{TrustDomain: w.TrustDomain, Namespace: w.Namespace, ServiceAccount: w.ServiceAccount}
	}
	return v
}
