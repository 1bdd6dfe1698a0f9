// Package relay joins the two ends of a flow and moves bytes between them
// until both directions have ended.
//
// Data enters by Join, which takes two ends. The result goes to Relayed, once,
// on the loop, with the counts and the close reason.
//
// Two engines do the moving: copy through the loop's block, and splice where
// both ends are sockets. The engine is chosen per direction, and again as the
// traffic shows.
//
// Owns: both ends from Join on, and one pipe per direction while bytes are in
// it. Threads: every method runs on the loop.
package relay

import (
	"time"

	"github.com/sluice-mesh/sluice/dataplane/end"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
)

// Config says how flows are relayed. It belongs to the node and is shared.
type Config struct {
	Idle      time.Duration // a flow on which no byte moves for this long is reset; 0 means never
	HalfClose time.Duration // the same for a half-closed flow; 0 means never
	NoSplice  bool          // copy only
}

// Relayed is told, once, that a flow has ended; both ends are closed by then.
type Relayed interface {
	Relayed(why flow.CloseReason, err error)
}

// A Pair is two joined ends. It is embedded in its session; the zero value is
// not joined.
type Pair struct {
	Path flow.Path // which its bytes are counted for; set before Join or Thaw

	closed bool
	loop   *loop.Loop
	cfg    *Config
	result Relayed

	client, server end.End
	up, down       direction  // client to server, and back
	timer          loop.Timer // idle and half-close
}

// What an end tells the pair says which of the two it is by its type: a flow is
// not one byte larger for it.
type (
	clientPeer Pair
	serverPeer Pair
)

func (c *clientPeer) Readable() { (*Pair)(c).up.pump() }
func (s *serverPeer) Readable() { (*Pair)(s).down.pump() }

func (c *clientPeer) Writable() { (*Pair)(c).writable(&c.down) }
func (s *serverPeer) Writable() { (*Pair)(s).writable(&s.up) }

func (c *clientPeer) Ended(why flow.CloseReason, err error) { (*Pair)(c).ended(&c.up, why, err) }
func (s *serverPeer) Ended(why flow.CloseReason, err error) { (*Pair)(s).ended(&s.down, why, err) }

// Panicked ends the flow.
func (c *clientPeer) Panicked(v any) { (*Pair)(c).Panicked(v) }

// Panicked ends the flow.
func (s *serverPeer) Panicked(v any) { (*Pair)(s).Panicked(v) }

// writable goes on with the direction that writes to the end which has room.
func (p *Pair) writable(out *direction) {
	out.pump()
	p.settle()
}

// ended passes on what an end had received before it broke, by the direction
// that reads from it, then the reset.
func (p *Pair) ended(in *direction, why flow.CloseReason, err error) {
	if why != flow.ClosePanic {
		in.lastWords()
	}
	p.abort(why, err)
}

// Join takes both ends and starts to move what they have. Counts go on from
// what the pair carried before, if it was thawed.
func (p *Pair) Join(l *loop.Loop, cfg *Config, client, server end.End, result Relayed) {
	p.wire(l, cfg, client, server, result)
	p.up.pump()
	p.down.pump()
	p.settle()
}

func (p *Pair) wire(l *loop.Loop, cfg *Config, client, server end.End, result Relayed) {
	p.loop, p.cfg, p.result = l, cfg, result
	p.client, p.server = client, server
	p.up.pair, p.down.pair = p, p
	p.up.moved, p.down.moved = l.Now(), l.Now()
	client.Attach((*clientPeer)(p))
	server.Attach((*serverPeer)(p))
	p.watch()
}

// Counts are the bytes that were handed on so far.
func (p *Pair) Counts() flow.Counts {
	return flow.Counts{
		Up: p.up.bytes, UpSpliced: p.up.spliced,
		Down: p.down.bytes, DownSpliced: p.down.spliced,
	}
}

// Splicing reports which directions are spliced now.
func (p *Pair) Splicing() (up, down bool) { return p.up.splicing, p.down.splicing }

// InPipe is how many bytes are in the pipe of each direction.
func (p *Pair) InPipe() (up, down int) { return p.up.inPipe(), p.down.inPipe() }

// HalfClosed reports which directions have ended.
func (p *Pair) HalfClosed() (up, down bool) { return p.up.finished, p.down.finished }

// settle closes the pair when both directions have ended and everything was
// handed to the kernel, which sends it and the FIN behind it.
func (p *Pair) settle() {
	if p.closed || !p.up.done() || !p.down.done() {
		return
	}
	p.close()
	p.client.Close()
	p.server.Close()
	p.result.Relayed(flow.CloseEOF, nil)
}

// Abort cuts the flow: both ends get a reset.
func (p *Pair) Abort(why flow.CloseReason) { p.abort(why, nil) }

// abort passes a reset on as a reset; whoever sent it does not mind another.
func (p *Pair) abort(why flow.CloseReason, err error) {
	if p.closed {
		return
	}
	p.close()
	p.client.Finish(why)
	p.server.Finish(why)
	p.client.Close()
	p.server.Close()
	p.result.Relayed(why, err)
}

// close ends everything of the pair but its ends.
func (p *Pair) close() {
	p.closed = true
	p.up.drop()
	p.down.drop()
	p.loop.Disarm(&p.timer)
}

// Queued reports that the loop will still run a direction of the pair.
func (p *Pair) Queued() bool { return p.up.queued || p.down.queued }

// Clear makes a pair that has ended as good as new.
func (p *Pair) Clear() { *p = Pair{} }

// Panicked ends the flow; its ends and directions come here.
func (p *Pair) Panicked(any) { p.abort(flow.ClosePanic, nil) }
