package flow

import "net/netip"

// A VerdictKind is what routing decided to do with a flow.
type VerdictKind uint8

// The verdicts.
const (
	Undecided VerdictKind = iota
	Deny                  // end it
	Direct                // dial the destination itself
	Tunnel                // a stream of a tunnel to a peer
)

func (k VerdictKind) String() string {
	switch k {
	case Undecided:
		return "undecided"
	case Deny:
		return "deny"
	case Direct:
		return "direct"
	case Tunnel:
		return "tunnel"
	}
	return "unknown"
}

// A Verdict tells session how to go on with a flow.
type Verdict struct {
	Kind VerdictKind
	Why  CloseReason    // of Deny
	To   netip.AddrPort // of Direct and Tunnel: where to connect
	Peer Identity       // of Tunnel: who has to be there

	// Source: the address to connect from. The zero Addr leaves it
	// to the kernel. Its port is chosen later.
	Source netip.Addr

	// Application says that To is this pod's own application: the connection
	// stays in the pod, and its source port must not meet the client's half.
	Application bool
}
