package relay

import (
	"github.com/sluice-mesh/sluice/dataplane/buf"
	"github.com/sluice-mesh/sluice/dataplane/end"
	"github.com/sluice-mesh/sluice/dataplane/metric"
)

// promote has this direction spliced from now on, if both ends are sockets and
// nothing is held.
func (d *direction) promote() {
	if d.pair.cfg.NoSplice || d.src.Socket() == nil || d.dst.Socket() == nil || d.dst.Unsent() > 0 {
		return
	}
	d.splicing, d.full, d.thin = true, 0, 0
	d.pair.loop.Metrics.Inc(metric.Promoted)
}

// demote has this direction copied from now on.
func (d *direction) demote() {
	d.splicing, d.full, d.thin = false, 0, 0
	d.pair.loop.Metrics.Inc(metric.Demoted)
}

// judge puts a direction back to copying that has stopped being bulk: total is
// what this turn moved.
func (d *direction) judge(total int) {
	if !d.splicing {
		return
	}
	if total >= buf.BlockBytes/2 {
		d.thin = 0
		return
	}
	if d.thin++; d.thin >= demoteAfter && d.pipe == nil {
		d.demote()
	}
}

// spliceOnce fills the pipe from the source, if it is empty, and drains it to
// the sink. The pipe goes back the moment it is empty.
func (d *direction) spliceOnce() (int, end.Wait, error) {
	l := d.pair.loop
	if d.pipe == nil {
		pipe := l.Pipes.Get()
		if pipe == nil {
			l.Metrics.Inc(metric.PipesExhausted)
			d.demote()
			return 0, end.Nothing, nil
		}
		_, next, err := d.src.Socket().Fill(pipe)
		if err != nil || next != end.Nothing {
			l.Pipes.Put(pipe)
			return 0, next, err
		}
		d.pipe = pipe
		l.Metrics.Move(metric.PipesInUse, 1)
	}
	n, next, err := d.dst.Socket().Drain(d.pipe)
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
