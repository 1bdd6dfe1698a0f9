package session

import (
	"errors"
	"net/netip"

	"github.com/sluice-mesh/sluice/dataplane/dial"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// A rebinding fetches another source port for a connect that was silent: from
// the flow's loop to the home loop, which owns the table of ports, and back. It
// is rare, so it may allocate. It owns the new socket until it is back.
type rebinding struct {
	s      *Session
	back   bool
	fd     sys.FD
	source netip.AddrPort // the new lease, if why is Open
	why    flow.CloseReason
	err    error
}

// Call is the step on the loop that it was posted to.
func (r *rebinding) Call() {
	if r.back {
		r.resume()
		return
	}
	s := r.s
	p := s.pod
	old := s.source
	v := flow.Verdict{Kind: s.verdict, To: s.to, Source: old.Addr(), Application: true}
	// The old port stays taken until there is a new one, so that they differ.
	if r.source, _, r.why, r.err = p.bind(&r.fd, s.tuple, v); r.why == flow.Open {
		p.ports.Release(old, s.tuple.Dst)
	}
	r.back = true
	if s.loop == p.home {
		r.resume()
	} else if !s.loop.Post(r) {
		_ = r.fd.Close()
	}
}

// resume goes on with the flow, unless it has ended in the meantime.
func (r *rebinding) resume() {
	s := r.s
	if r.why == flow.Open {
		s.source = r.source
	}
	switch {
	case s.why != flow.Open:
		_ = r.fd.Close()
		s.complete(s.why, sys.Errno(s.errno))
	case r.why != flow.Open:
		s.state = dialing
		s.finish(r.why, r.err)
	default:
		r.fd.MoveTo(s.server.FD())
		s.state = dialing
		s.connect(0)
	}
}

// Panicked ends the flow that waits for the new port.
func (r *rebinding) Panicked(v any) {
	if r.back {
		r.s.Panicked(v)
		return
	}
	_ = r.fd.Close()
	r.back, r.why = true, flow.ClosePanic
	if r.s.loop == r.s.pod.home {
		r.resume()
	} else {
		r.s.loop.Post(r)
	}
}

// anotherPort reports an end of a connect that another source port may mend.
func anotherPort(err error) bool {
	return errors.Is(err, dial.ErrSilent) || errors.Is(err, sys.EADDRNOTAVAIL) || errors.Is(err, sys.EADDRINUSE)
}
