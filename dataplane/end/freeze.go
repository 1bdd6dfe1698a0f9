package end

import (
	"github.com/sluice-mesh/sluice/dataplane/buf"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

const (
	socketVersion = 1

	flagFinishing = 1 << 0
	flagFinished  = 1 << 1
)

// Freeze appends the state of the socket and its descriptor. What the kernel
// has is not written: registering the descriptor elsewhere reports it anew.
func (s *Socket) Freeze(b []byte, fds []*sys.FD) ([]byte, []*sys.FD) {
	var flags byte
	if s.finishing {
		flags |= flagFinishing
	}
	if s.finished {
		flags |= flagFinished
	}
	b = append(b, socketVersion, byte(s.side), flags)
	if s.held == nil {
		b = flow.AppendBytes(b, nil)
	} else {
		b = flow.AppendBytes(b, s.held.Filled())
	}
	if s.registered {
		s.drop()
		s.registered = false
		// The open file lives on elsewhere, so the kernel has to be told. It
		// fails only for a descriptor that is not watched.
		_ = s.loop.Detach(s.tok, &s.fd)
	}
	out := new(sys.FD)
	s.fd.MoveTo(out)
	return b, append(fds, out)
}

// Thaw reads what Freeze wrote into the empty s, takes fd, and registers the
// socket on l; connected says that its connection was up. On error the socket is empty and the connection reset.
func (s *Socket) Thaw(d *flow.Decoder, fd *sys.FD, l *loop.Loop, peer Peer, connected bool) error {
	fd.MoveTo(&s.fd)
	d.Version("socket", socketVersion)
	side := Side(d.Byte())
	flags := d.Byte()
	held := d.Bytes(buf.BlockBytes)
	if side > Server {
		d.Fail("bad side")
	}
	err := d.Err()
	if err == nil {
		// The peer is told that it may write, in any case: it may have waited
		// for that, or have bytes in a pipe. It does not have to wait for that.
		err = s.Register(l, side, peer, connected && len(held) == 0)
		s.waiting = true
	}
	if err != nil {
		s.Finish(flow.CloseInternal)
		return err
	}
	s.finishing, s.finished = flags&flagFinishing != 0, flags&flagFinished != 0
	if len(held) > 0 {
		s.held, err = l.Blocks.Get()
		if err != nil {
			s.Finish(flow.CloseInternal)
			return err
		}
		s.held.Add(copy(s.held.Free(), held))
		l.Metrics.Move(metric.HeldBytes, int64(len(held)))
		l.Metrics.Move(metric.HeldBlocks, 1)
	}
	return nil
}
