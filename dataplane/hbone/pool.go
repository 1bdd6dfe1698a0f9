package hbone

import (
	"errors"

	"github.com/sluice-mesh/sluice/dataplane/gcm"
	"github.com/sluice-mesh/sluice/dataplane/h2"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
)

type poolKey struct{}

// A Pool has the tunnels of one loop that we have dialled: one for each Key.
type Pool struct {
	loop    *loop.Loop
	cipher  gcm.Impl
	dir     *Directory
	tunnels map[Key]*Tunnel
}

// PoolOf is the loop's own pool; dir is where all pools of the node say what they have.
func PoolOf(l *loop.Loop, cipher gcm.Impl, dir *Directory) *Pool {
	return l.Local(poolKey{}, func(*loop.Loop) any {
		return &Pool{loop: l, cipher: cipher, dir: dir, tunnels: map[Key]*Tunnel{}}
	}).(*Pool)
}

// Open opens a stream to where k says, on the tunnel that there is or on one that is
// dialled now. block is the CONNECT, compressed, without what stands in front of a
// connection's first one; it is kept until opened is told. Closing the stream before
// that cancels it.
func (p *Pool) Open(k Key, block []byte, opened Opened) *Stream {
	s := &Stream{opened: opened, block: block, first: -1}
	p.put(k, s)
	return s
}

// put has s opened by the tunnel for k.
func (p *Pool) put(k Key, s *Stream) {
	t := p.tunnels[k]
	fresh := t == nil || !t.Usable()
	if fresh {
		t = newTunnel(p.loop, h2.Client, p.cipher, k.From)
		t.pool, t.key = p, k
		p.tunnels[k] = t
	}
	s.tunnel = t
	t.pending = append(t.pending, s)
	if fresh {
		k.From.DialTunnel(p.loop, k, t)
	} else {
		t.openPending()
	}
}

// again opens a stream that t's peer did nothing for on another tunnel.
func (p *Pool) again(t *Tunnel, s *Stream) {
	if p.tunnels[t.key] == t {
		delete(p.tunnels, t.key)
	}
	p.loop.Metrics.Inc(metric.StreamsRetried)
	s.gone, s.wasReset, s.reset = false, false, 0
	s.h2 = h2.Stream{}
	p.put(t.key, s)
}

// forget takes a tunnel that has ended out of the pool.
func (p *Pool) forget(t *Tunnel) {
	if p.tunnels[t.key] == t {
		delete(p.tunnels, t.key)
		p.dir.remove(t.key, p.loop)
	}
}

// openPending opens streams as long as the peer allows.
func (t *Tunnel) openPending() {
	for t.records != nil && !t.closed && len(t.pending) > 0 {
		id, err := t.ids.Open(&t.peer)
		if errors.Is(err, h2.ErrBusy) {
			return
		}
		if err != nil {
			t.giveUpPending()
			return
		}
		s := t.pending[0]
		t.pending = append(t.pending[:0], t.pending[1:]...)
		s.h2 = h2.NewStream(id, t.peer.Window, streamWindow)
		t.streams[id] = s
		t.loop.Metrics.Move(metric.OpenStreams, 1)
		t.loop.Metrics.Inc(metric.Streams)
		s.h2.SentHeaders(false)
		b := t.tableSize(h2.BeginHeaders(t.frame[:0]))
		b = append(b, s.block...)
		t.send(h2.EndHeaders(b, 0, id, false, t.peer.Frame))
	}
}

// giveUpPending has other tunnels open what this one can't any more.
func (t *Tunnel) giveUpPending() {
	waiting := t.pending
	t.pending = nil
	for _, s := range waiting {
		if t.pool == nil || s.retried {
			s.gone = true
			s.broken(t.resetReason(), ErrRefused)
			continue
		}
		s.retried = true
		t.pool.again(t, s)
	}
}
