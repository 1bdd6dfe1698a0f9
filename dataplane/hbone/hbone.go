// Package hbone carries flows in tunnels: HTTP/2 CONNECT streams over TLS 1.3, many
// in one connection.
//
// A Tunnel stands on a lower end, which is a socket, or a stream of another tunnel.
// After its handshake ciphertext enters by the lower end's Pull, is opened in place,
// and leaves as slices that its Streams hand to their peers' sinks. Payload enters by
// a Stream's Room, behind the headers of frame and record, is sealed there, and is
// written to the lower end when the turn ends. A Pool opens streams on the tunnels of
// one loop; an Acceptor gets those that a peer opens.
//
// Owns: a Tunnel its lower end, keys, blocks and streams; whoever got a Stream ends
// it with Close. Threads: everything on the tunnel's loop, but for the Directory.
package hbone

import (
	"errors"
	"net/netip"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/h2"
	"github.com/sluice-mesh/sluice/dataplane/loop"
)

// What we tell peers in SETTINGS.
const (
	streamWindow     = 1 << 20 // what a peer may send on a stream before more is granted
	connWindow       = 16 << 20
	maxFrame         = 1 << 20
	clientHeaderList = 16 << 10
	serverHeaderList = 64 << 10
	maxStreams       = 200
)

// Why a stream or tunnel has ended.
var (
	// ErrLost says that the tunnel's connection has ended under its streams.
	ErrLost = errors.New("tunnel was lost")
	// ErrRefused says that the peer did not serve the stream, twice.
	ErrRefused = errors.New("peer refused the stream")
	// ErrClosing says that the tunnel was given up by this side.
	ErrClosing = errors.New("tunnel is closing")
	// ErrSilent says that the handshake took too long.
	ErrSilent = errors.New("handshake took too long")

	errNobody = errors.New("peer has shown no certificate")
)

// A StatusError is an answer to a CONNECT that is not 200.
type StatusError int

// Error names the status.
func (e StatusError) Error() string {
	return "peer answered CONNECT with status " + string([]byte{'0' + byte(e/100%10), '0' + byte(e/10%10), '0' + byte(e%10)})
}

// Opened is told, once, how a CONNECT of ours was answered: the stream is up if why is
// flow.Open, and otherwise gone.
type Opened interface {
	Opened(why flow.CloseReason, err error)
}

// An Acceptor gets each stream that a peer opens, and ends it by Refuse, or by Accept
// and Close. Slices in r are lent.
type Acceptor interface {
	Connect(s *Stream, r *h2.Request)
}

// An Owner is told, once, that a tunnel has ended.
type Owner interface {
	TunnelClosed(t *Tunnel, why flow.CloseReason, err error)
}

// A Dialer makes the connections of tunnels from inside a pod. Dial ends by
// Tunnel.Begin, on l, with the socket of t up, or by Tunnel.Fail.
type Dialer interface {
	Owner
	DialTunnel(l *loop.Loop, k Key, t *Tunnel)
}

// A Key says which streams share a tunnel.
type Key struct {
	From   Dialer     // the pod
	Source netip.Addr // the client's address, from which the tunnel is dialled
	Peer   flow.Identity
	To     netip.AddrPort
}
