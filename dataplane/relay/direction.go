package relay

import (
	"math"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/buf"
	"github.com/sluice-mesh/sluice/dataplane/end"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/splice"
)

const (
	turnBytes = 1 << 20 // what one direction may move in a turn
	lastBytes = 8 << 20 // and when its source is broken
	// promoteAt is the running average of reads at which a direction is bulk: the
	// third full block in a row reaches it. Behind a slow sink reads are as large as
	// the source's window, which may never fill a block.
	promoteAt   = buf.BlockBytes / 16 * 9
	demoteAfter = 3           // times in a row that the source had less than half a block
	demoteIdle  = time.Second // without a byte
)

// direction moves bytes from src to dst.
//
// Invariant: pipe is not nil exactly while bytes are in it, between calls. A
// direction that is spliced holds nothing in dst, and the other way round.
type direction struct {
	pair *Pair
	pipe *splice.Pipe

	bytes, spliced uint64
	moved          time.Duration // when the last byte or FIN did
	filled         uint16        // average of the last reads; four weigh most
	thin           uint8         // bursts in a row that were short
	splicing       bool
	finished       bool   // FIN was read and passed on
	queued         bool   // in the loop's run-again queue
	burst          uint16 // spliced since the source was empty; stops at the largest
}

// src is the end that is read from.
func (d *direction) src() end.End {
	if d == &d.pair.up {
		return d.pair.client
	}
	return d.pair.server
}

// dst is the end that is written to.
func (d *direction) dst() end.End {
	if d == &d.pair.up {
		return d.pair.server
	}
	return d.pair.client
}

// done reports that nothing is left to be done for this direction.
func (d *direction) done() bool { return d.finished && d.dst().Unsent() == 0 }

// Run goes on after the share of a turn was used up.
func (d *direction) Run() {
	d.queued = false
	d.pump()
	d.pair.settle()
}

// Panicked ends the flow.
func (d *direction) Panicked(v any) { d.pair.Panicked(v) }

// pump moves at most turnBytes and then waits for what is missing, or for the
// next turn. It must not be called for more by those whose call it is inside.
func (d *direction) pump() {
	p := d.pair
	if p.closed || d.finished || d.queued {
		return
	}
	if d.splicing && d.pipe == nil && p.loop.Now()-d.moved > demoteIdle {
		d.demote()
	}
	total, next := 0, end.Nothing
	for total < turnBytes && next == end.Nothing {
		n, wait, err := d.step()
		if p.closed {
			return // the end that failed has ended the pair by itself
		}
		if err != nil {
			p.abort(flow.CloseInternal, err)
			return
		}
		total += n
		next = wait
	}
	if total > 0 {
		d.moved = p.loop.Now()
	}
	switch next {
	case end.Nothing:
		d.queued = true
		p.loop.Again(d)
	case end.Ended:
		d.finish()
	case end.ForReadable, end.ForRoom: // the end concerned will tell
	}
}

// step moves once, by the engine of the moment.
func (d *direction) step() (int, end.Wait, error) {
	if d.filled >= promoteAt {
		d.promote()
	}
	if d.splicing {
		return d.spliceOnce()
	}
	n, next, err := d.src().Pull(d.dst(), turnBytes) // a socket has room for one block; a stream for more
	if n > 0 && !d.pair.closed {                     // else they were refused, and that ended the pair
		d.count(n)
		d.pair.loop.Metrics.Add(metric.CopiedBytes, uint64(n))
		d.filled = uint16(min((3*int(d.filled)+min(n, buf.BlockBytes))/4, math.MaxUint16))
	}
	return n, next, err
}

// lastWords moves what the source, which is broken, had received, as far as the
// sink takes it at once: a client that is connected directly would get it too. It
// may be inside pump, and passes on no FIN: behind an error that was taken the end
// of a socket looks like one.
func (d *direction) lastWords() {
	for total := 0; total < lastBytes && !d.pair.closed && !d.finished; {
		n, next, err := d.step()
		if err != nil || next != end.Nothing {
			return
		}
		total += n
	}
}

func (d *direction) count(n int) {
	d.bytes += uint64(n)
	m := &d.pair.loop.Metrics
	if d == &d.pair.up {
		m.Add(metric.UpBytes, uint64(n))
		m.Up[d.pair.Path] += uint64(n)
	} else {
		m.Add(metric.DownBytes, uint64(n))
		m.Down[d.pair.Path] += uint64(n)
	}
}

// finish passes a FIN on. The last one of a flow is sent by closing.
func (d *direction) finish() {
	p := d.pair
	d.finished, d.moved = true, p.loop.Now() // the limit of a half-closed flow begins here
	other := &p.up
	if d == other {
		other = &p.down
	}
	if other.done() && d.dst().Unsent() == 0 {
		p.settle()
		return
	}
	d.dst().Finish(flow.CloseEOF)
	p.watch()
}
