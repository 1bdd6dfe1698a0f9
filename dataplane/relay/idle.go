package relay

import (
	"time"

	"github.com/sluice-mesh/sluice/dataplane/flow"
)

// limit is how long the flow may be without a byte, and what it is reset for
// after that; 0 means for ever.
func (p *Pair) limit() (time.Duration, flow.CloseReason) {
	half := p.up.finished || p.down.finished
	if half && p.cfg.HalfClose > 0 && (p.cfg.Idle == 0 || p.cfg.HalfClose <= p.cfg.Idle) {
		return p.cfg.HalfClose, flow.CloseHalf
	}
	return p.cfg.Idle, flow.CloseIdle
}

// watch arms the timer where there is a limit. It is not moved with each byte:
// when it fires it looks at when the last one moved.
func (p *Pair) watch() {
	limit, _ := p.limit()
	if limit == 0 {
		return
	}
	last := max(p.up.moved, p.down.moved)
	p.loop.Arm(&p.timer, last+limit-p.loop.Now(), p)
}

// Fire looks whether the flow was idle for as long as it may be.
func (p *Pair) Fire() {
	limit, why := p.limit()
	if limit == 0 {
		return
	}
	if p.loop.Now()-max(p.up.moved, p.down.moved) >= limit {
		p.abort(why, nil)
		return
	}
	p.watch()
}
