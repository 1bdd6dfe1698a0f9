package relay

import (
	"math"

	"github.com/sluice-mesh/sluice/dataplane/buf"
	"github.com/sluice-mesh/sluice/dataplane/end"
	"github.com/sluice-mesh/sluice/dataplane/metric"
)

// promote has this direction spliced from now on, if both ends are sockets, as
// soon as nothing is held: bytes must not overtake each other.
func (d *direction) promote() {
	if d.pair.cfg.NoSplice || d.src().Socket() == nil || d.dst().Socket() == nil || d.dst().Unsent() > 0 || d.src().Socket().Urgent() {
		return
	}
	d.splicing, d.filled, d.thin, d.burst = true, 0, 0, 0
	d.pair.loop.Metrics.Inc(metric.Promoted)
}

// demote has this direction copied from now on.
func (d *direction) demote() {
	d.splicing, d.filled = false, 0
	d.pair.loop.Metrics.Inc(metric.Demoted)
}

// judge puts a direction back to copying that has stopped being bulk. The source
// is empty now, and had burst bytes since it was so before; a slow sink only
// makes that more.
func (d *direction) judge() {
	if d.burst >= buf.BlockBytes/2 {
		d.thin = 0
	} else if d.burst > 0 {
		d.thin++
	}
	if d.burst = 0; d.thin >= demoteAfter {
		d.demote()
	}
}

// spliceOnce fills the pipe from the source, if it is empty, and drains it to
// the sink. The pipe goes back the moment it is empty.
func (d *direction) spliceOnce() (int, end.Wait, error) {
	l := d.pair.loop
	if d.pipe == nil && d.src().Socket().Urgent() {
		d.demote()
		return 0, end.Nothing, nil
	}
	if d.pipe == nil {
		pipe := l.Pipes.Get()
		if pipe == nil {
			l.Metrics.Inc(metric.PipesExhausted)
			d.demote()
			return 0, end.Nothing, nil
		}
		n, next, err := d.src().Socket().Fill(pipe)
		if err != nil || next != end.Nothing {
			l.Pipes.Put(pipe)
			switch next {
			case end.ForReadable:
				d.judge()
			case end.Ended:
				d.splicing = false // copying knows whether that is a FIN
				next = end.Nothing
			case end.Nothing, end.ForRoom: // an error
			}
			return 0, next, err
		}
		d.burst = uint16(min(int(d.burst)+n, math.MaxUint16))
		d.pipe = pipe
		l.Metrics.Move(metric.PipesInUse, 1)
	}
	n, next, err := d.dst().Socket().Drain(d.pipe)
	if d.pair.closed {
		return 0, next, err // and the pipe is gone
	}
	if n > 0 {
		d.count(n)
		d.spliced += uint64(n)
		l.Metrics.Add(metric.SplicedBytes, uint64(n))
	}
	if d.pipe.Held() == 0 {
		d.drop()
	}
	return n, next, err
}

func (d *direction) inPipe() int {
	if d.pipe == nil {
		return 0
	}
	return d.pipe.Held()
}

// drop gives the pipe back, with what is in it.
func (d *direction) drop() {
	if d.pipe == nil {
		return
	}
	d.pair.loop.Pipes.Put(d.pipe)
	d.pipe = nil
	d.pair.loop.Metrics.Move(metric.PipesInUse, -1)
}
