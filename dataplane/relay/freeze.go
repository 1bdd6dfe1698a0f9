package relay

import (
	"encoding/binary"

	"github.com/sluice-mesh/sluice/dataplane/end"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

const (
	pairVersion = 1

	flagSplicing = 1 << 0
	flagFinished = 1 << 1
	flagPipe     = 1 << 2
)

// Freeze appends the state of both directions and both ends, and their
// descriptors: client, server, then the two of each pipe that holds data. The
// pair is gone after it.
func (p *Pair) Freeze(b []byte, fds []*sys.FD) ([]byte, []*sys.FD) {
	p.closed = true
	p.loop.Disarm(&p.timer)
	b = append(b, pairVersion)
	b, fds = p.client.Freeze(b, fds)
	b, fds = p.server.Freeze(b, fds)
	b, fds = p.up.freeze(b, fds)
	return p.down.freeze(b, fds)
}

func (d *direction) freeze(b []byte, fds []*sys.FD) ([]byte, []*sys.FD) {
	var flags byte
	for _, f := range []struct {
		on  bool
		bit byte
	}{{d.splicing, flagSplicing}, {d.finished, flagFinished}, {d.pipe != nil, flagPipe}} {
		if f.on {
			flags |= f.bit
		}
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, d.bytes)
	b = binary.AppendUvarint(b, d.spliced)
	b = flow.AppendDuration(b, d.pair.loop.Now()-d.moved)
	if d.pipe == nil {
		return b, fds
	}
	r, w, held := d.pair.loop.Pipes.Freeze(d.pipe)
	d.pipe = nil
	d.pair.loop.Metrics.Move(metric.PipesInUse, -1)
	return binary.AppendUvarint(b, uint64(held)), append(fds, r, w)
}

// Thaw reads what Freeze wrote and goes on with the flow on l, into ends that
// are empty. On error both connections are reset, and the caller closes what is
// left of fds.
func (p *Pair) Thaw(d *flow.Decoder, fds *sys.FDs, l *loop.Loop, cfg *Config, client, server *end.Socket, result Relayed) error {
	d.Version("pair", pairVersion)
	if err := client.Thaw(d, fds.Next(), l, nil, true); err != nil {
		return err
	}
	if err := server.Thaw(d, fds.Next(), l, nil, true); err != nil {
		client.Finish(flow.CloseInternal)
		return err
	}
	p.wire(l, cfg, client, server, result)
	err := p.up.thaw(d, fds)
	if err == nil {
		err = p.down.thaw(d, fds)
	}
	if err != nil {
		p.close()
		client.Finish(flow.CloseInternal)
		server.Finish(flow.CloseInternal)
		return err
	}
	p.watch()
	return nil
}

func (d *direction) thaw(from *flow.Decoder, fds *sys.FDs) error {
	flags := from.Byte()
	d.splicing, d.finished = flags&flagSplicing != 0, flags&flagFinished != 0
	d.bytes, d.spliced = from.Uint(), from.Uint()
	d.moved = d.pair.loop.Now() - from.Duration()
	if flags&flagPipe != 0 && from.Err() == nil {
		held := from.Uint()
		if held == 0 || held > 1<<30 {
			from.Fail("bad pipe")
		}
		if from.Err() == nil {
			pipe, err := d.pair.loop.Pipes.Thaw(fds.Next(), fds.Next(), int(held))
			if err != nil {
				return err
			}
			d.pipe = pipe
			d.splicing = true
			d.pair.loop.Metrics.Move(metric.PipesInUse, 1)
		}
	}
	return from.Err()
}
