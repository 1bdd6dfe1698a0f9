package flow

// A CloseReason is one of the ways in which a flow ends.
type CloseReason uint8

// The close reasons. Each is the value of a metric label.
const (
	Open             CloseReason = iota
	CloseEOF                     // both sides sent FIN and everything was delivered
	CloseClientReset             // the client sent a reset
	CloseServerReset             // the dialled side sent a reset
	CloseRefused                 // the destination answered the connect with a reset
	CloseUnreachable             // the network or the host said that there is no way
	CloseConnect                 // no answer to the connect within its deadline
	CloseSourcePorts             // no source port is left towards this application
	CloseClientGone              // the client went away while its destination was being dialled
	CloseStraight                // a straight dial to a port of the proxy, or one that would lead back into it
	CloseNoSource                // the address that the client used could not be bound
	CloseTimeout                 // a side stopped answering (keepalive or retransmission limit)
	CloseIdle                    // idle for longer than configured
	CloseHalf                    // half-closed without a byte for longer than configured
	CloseDrain                   // cut at a drain deadline of the process
	ClosePodDrain                // cut at the drain deadline of a removed pod
	CloseLimit                   // no descriptor, memory or slot left for it
	ClosePanic                   // a fault in the proxy while serving it
	CloseHandshake               // the tunnel's handshake failed: who a side is was not proved, or it took too long
	CloseIdentity                // there is no certificate for this pod
	CloseStatus                  // the peer of a tunnel answered CONNECT with another status than 200
	CloseProtocol                // the peer of a tunnel broke the protocol
	CloseInternal                // anything else: a bug to be looked into
	Reasons                      // how many there are
)

// String is the value of the metric label.
func (r CloseReason) String() string {
	names := [Reasons]string{
		"open", "eof", "client_reset", "server_reset", "refused", "unreachable",
		"connect_timeout", "source_ports", "client_gone", "straight_dial", "no_source",
		"timeout", "idle", "half_close_timeout", "drain", "pod_drain", "limit", "panic",
		"handshake", "identity", "connect_status", "protocol", "internal",
	}
	if r < Reasons {
		return names[r]
	}
	return "unknown"
}

// Clean reports an end in which nothing was cut off.
func (r CloseReason) Clean() bool { return r == CloseEOF }
