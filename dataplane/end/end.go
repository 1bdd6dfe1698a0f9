// Package end is the contract between what carries bytes and what moves them,
// and the end that is a socket.
//
// The sink lends room and the source fills it in place, so that nothing is
// copied that need not be: behind record and frame headers when the sink is a
// stream, in the loop's block when it is a socket. Data enters an End by Pull
// from its other side, and leaves by Commit or Write.
//
// Owns: each end its descriptor or stream. Threads: all calls on the owning
// loop. Slices are lent for the length of the call.
package end

import (
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// A Sink takes bytes towards one side of a flow.
type Sink interface {
	// Room lends up to max bytes of space to fill in place. None means that
	// the sink is full: Peer.Writable follows when it is not any more.
	Room(max int) [][]byte
	// Commit says that the first n bytes of the last Room are data. They are
	// taken, also when they can't be sent at once: Unsent tells.
	Commit(n int) error
	// Write offers bytes that already lie in memory, and returns how many
	// were taken; fewer than offered means full, as with Room.
	Write(bufs [][]byte) (int, error)
	// Unsent is how many bytes were taken and not yet handed on.
	Unsent() int
	// Finish ends this direction: with CloseEOF a FIN follows what was taken;
	// any other reason resets the end and drops what was not handed on.
	Finish(why flow.CloseReason)
}

// A Wait says what a source needs before Pull can go on.
type Wait uint8

// What Pull may need.
const (
	Nothing     Wait = iota // the budget is spent; call again
	ForReadable             // the source has no more; Peer.Readable follows
	ForRoom                 // the sink is full; its Peer.Writable follows
	Ended                   // the source has sent FIN and everything before it was moved
)

// An End is one side of a flow.
type End interface {
	Sink
	// Pull moves what this side has into dst, at most budget bytes by one
	// call to the kernel or of one record.
	Pull(dst Sink, budget int) (n int, next Wait, err error)
	// Attach says who is told. It may be called again, when a flow goes from
	// being dialled to being relayed; what happened before is not told again,
	// so a new peer pulls once.
	Attach(p Peer)
	// Socket is the socket behind this end, for splice; nil for a stream.
	Socket() *Socket
	// Freeze appends the end's state, versioned, and its descriptors. The End
	// is gone after it.
	Freeze(b []byte, fds []*sys.FD) ([]byte, []*sys.FD)
	// Close gives the end back. A FIN follows what was handed on.
	Close()
}

// A Peer is told what happens to an End.
type Peer interface {
	Readable() // Pull may find something
	Writable() // the sink was full or had unsent bytes, and has none now
	// Ended says that the end is broken. What it had received can still be
	// pulled, up to the return; Linux keeps it readable behind the error.
	Ended(why flow.CloseReason, err error)
}
