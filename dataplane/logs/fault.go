package logs

import (
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// faultText says what went wrong with a flow, for the field error; "" when nothing
// did: a side that resets its connection is no fault, as with the mesh's own
// proxy.
func faultText(why flow.CloseReason, errno uintptr) string {
	text := sentence(why)
	if text != "" && errno != 0 {
		text += ": " + sys.Errno(errno).Error()
	}
	return text
}

func sentence(why flow.CloseReason) string {
	switch why {
	case flow.CloseEOF, flow.CloseClientReset, flow.CloseServerReset, flow.CloseClientGone:
		return ""
	case flow.CloseRefused:
		return "destination refused the connection"
	case flow.CloseUnreachable:
		return "destination is unreachable"
	case flow.CloseConnect:
		return "destination did not answer the connect in time"
	case flow.CloseSourcePorts:
		return "no source port is left towards this application"
	case flow.CloseStraight:
		return "straight dial to the proxy, or one that would lead back into it"
	case flow.CloseNoSource:
		return "client's address can't be used towards the destination"
	case flow.CloseTimeout:
		return "a side stopped answering"
	case flow.CloseIdle:
		return "connection idle for too long"
	case flow.CloseHalf:
		return "half-closed connection idle for too long"
	case flow.CloseDrain:
		return "connection closed due to connection drain"
	case flow.ClosePodDrain:
		return "connection closed due to connection drain: its pod was removed"
	case flow.CloseLimit:
		return "no descriptor, memory or slot left for it"
	case flow.ClosePanic:
		return "fault in the proxy while serving it"
	case flow.CloseHandshake:
		return "the tunnel's handshake failed"
	case flow.CloseIdentity:
		return "no certificate for this pod"
	case flow.CloseStatus:
		return "the tunnel's peer refused the CONNECT"
	case flow.CloseProtocol:
		return "the tunnel's peer broke the protocol"
	case flow.CloseInternal:
		return "unexpected error"
	case flow.Open, flow.Reasons:
	}
	return "unknown reason" // a bug: no flow ends so
}
