// Package flow holds the plain values that all stages of a flow share: what it
// is (Tuple, Path), what was decided (Verdict), how it ended (CloseReason) and
// what it carried (Counts, Record).
//
// Values only: nothing here owns anything.
package flow

import "net/netip"

// A Path is the road that a flow takes through a pod.
type Path uint8

// The paths, named as in metrics and logs.
const (
	Outbound      Path = iota // from the pod's application to the network; port 15001
	Inbound                   // from the network to the pod's application, plain TCP; port 15006
	InboundHBONE              // the same through a tunnel; port 15008
	OutboundHBONE             // from the pod's application to a peer, through a tunnel; port 15001
	Paths                     // how many there are
)

func (p Path) String() string {
	switch p {
	case Outbound:
		return "outbound"
	case Inbound:
		return "inbound"
	case InboundHBONE:
		return "inbound_hbone"
	case OutboundHBONE:
		return "outbound_hbone"
	}
	return "unknown"
}

// PortHBONE is where pods take tunnels.
const PortHBONE = 15008

// Inbound reports the paths that lead to the pod's application.
func (p Path) Inbound() bool { return p == Inbound || p == InboundHBONE }

// Tunnelled reports the paths that lead through a tunnel.
func (p Path) Tunnelled() bool { return p == InboundHBONE || p == OutboundHBONE }

// A Tuple is what a client asked for: its own address and the destination
// before anything captured the connection. IPv4 is never in IPv6 form.
type Tuple struct {
	Client, Dst netip.AddrPort
}

func (t Tuple) String() string { return t.Client.String() + " > " + t.Dst.String() }

// Counts are the bytes handed to the receiving side. Up is from client to
// server, Down is back. The Spliced parts never entered user space.
type Counts struct {
	Up, Down               uint64
	UpSpliced, DownSpliced uint64
}

// A Record is what is written about a flow when it has ended.
type Record struct {
	ID       uint64
	Tuple    Tuple
	Upstream netip.AddrPort // where it was dialled to; zero when it was not
	Source   netip.AddrPort // the address that the dialled side sees, as far as it was chosen
	Path     Path
	Verdict  VerdictKind
	Reason   CloseReason
	Errno    uintptr // the kernel error behind Reason; 0 when there is none
	Counts   Counts
	AgeNano  int64
	EndNano  int64 // Unix time
	Pod      *Pod

	// Of flows that go through a tunnel. Authority is where the CONNECT goes; Us and
	// Them are the identities that both sides have proved.
	Authority netip.AddrPort
	Us, Them  Identity
	Detail    string // the error behind Reason, when it is none of the kernel's
}

// A Pod names the enrolled pod that a flow belongs to; immutable.
type Pod struct {
	UID, Name, Namespace, ServiceAccount string
}
