package redirect

import "net/netip"

// A Term is one match or statement of a Row. The types are those of this file;
// package nft knows the text and the bytes of each.
type Term interface{ term() }

// A Proto is a transport protocol, by its number.
type Proto uint8

// The protocols.
const (
	TCP Proto = 6
	UDP Proto = 17
)

func (p Proto) String() string {
	if p == UDP {
		return "udp"
	}
	return "tcp"
}

type (
	// InIface matches the interface that a packet came in by.
	InIface struct {
		Name string
		Not  bool
	}
	// OutIface matches the interface that a packet leaves by.
	OutIface struct {
		Name string
		Not  bool
	}
	// IP matches the packet's family.
	IP struct{ Family Family }
	// L4 matches the transport protocol.
	L4 struct{ Proto Proto }
	// Mark matches the packet's mark below MarkMask.
	Mark struct {
		Value uint32
		Not   bool
	}
	// SocketMark matches the mark, below MarkMask, of the socket that the packet
	// belongs to.
	SocketMark struct{ Value uint32 }
	// Transparent matches packets of a transparent socket, or with Not those of
	// another one; never those of none.
	Transparent struct{ Not bool }
	// SYN matches the first packet of a TCP connection.
	SYN struct{ Not bool }
	// NotLocal matches a destination that is none of the namespace's addresses.
	NotLocal struct{}
	// SrcPort matches a source port.
	SrcPort struct {
		Proto Proto
		Port  uint16
		Not   bool
	}
	// DstPort matches a destination port.
	DstPort struct {
		Proto Proto
		Port  uint16
	}
	// From matches a source address.
	From struct{ Addr netip.Addr }
	// FromPrefix matches sources within a prefix.
	FromPrefix struct{ Prefix netip.Prefix }
	// To matches destinations of one family within disjoint prefixes.
	To struct{ Prefixes []netip.Prefix }
	// SetMark writes the mark below MarkMask and keeps the bits above.
	SetMark struct{ Value uint32 }
	// TProxy gives the packet to the socket that listens on Port. It goes on with
	// the next term when there is one, with the next row when there is none.
	TProxy struct {
		Family Family
		Port   uint16
	}
	// Accept lets the packet pass this table.
	Accept struct{}
	// Drop ends the packet.
	Drop struct{}
	// Goto continues in another chain for good.
	Goto struct{ Chain string }
	// Named is an expression without operands, by its name in the kernel. It is
	// for asking whether a kernel knows a name; no plan holds one.
	Named struct{ Expr string }
)

func (InIface) term()     {}
func (OutIface) term()    {}
func (IP) term()          {}
func (L4) term()          {}
func (Mark) term()        {}
func (SocketMark) term()  {}
func (Transparent) term() {}
func (SYN) term()         {}
func (NotLocal) term()    {}
func (SrcPort) term()     {}
func (DstPort) term()     {}
func (From) term()        {}
func (FromPrefix) term()  {}
func (To) term()          {}
func (SetMark) term()     {}
func (TProxy) term()      {}
func (Accept) term()      {}
func (Drop) term()        {}
func (Goto) term()        {}
func (Named) term()       {}
