package session

import (
	"errors"
	"net/netip"

	"github.com/sluice-mesh/sluice/dataplane/dial"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// binder tries source ports for a spoofed socket.
type binder struct {
	fd   *sys.FD
	addr netip.Addr
}

// TryBind binds the socket to the client's address and this port.
func (b *binder) TryBind(port uint16) error {
	return sys.Bind(b.fd, netip.AddrPortFrom(b.addr, port))
}

// bind puts a socket for the flow into the empty fd, bound as the verdict says,
// on the home loop. leased says that source is noted in the table of ports. why
// is Open unless it failed; then fd is empty.
func (p *Pod) bind(fd *sys.FD, t flow.Tuple, v flow.Verdict) (source netip.AddrPort, leased bool, why flow.CloseReason, err error) {
	m := &p.home.Metrics
	kind := dial.Network
	switch {
	case v.Application && v.Source.IsValid():
		kind = dial.Spoofed
	case v.Application:
		kind = dial.Application
	}
	if err := p.maker.Get(fd, kind, sys.FamilyOf(v.To.Addr())); err != nil {
		why := flow.CloseInternal
		if e := sys.ErrnoOf(err); e == sys.EMFILE || e == sys.ENFILE || e == sys.ENOBUFS || e == sys.ENOMEM {
			why = flow.CloseLimit
		}
		return source, false, why, err
	}
	switch {
	case kind == dial.Spoofed:
		p.binder = binder{fd, v.Source}
		port, skipped, spilled, err := p.ports.Choose(t.Client, t.Dst, &p.binder)
		m.Add(metric.SourcePortSkips, uint64(skipped))
		if spilled {
			m.Inc(metric.SourcePortSpill)
		}
		if err != nil {
			_ = fd.Close()
			if errors.Is(err, sys.EADDRNOTAVAIL) {
				return source, false, flow.CloseSourcePorts, err
			}
			return source, false, flow.CloseNoSource, err
		}
		return netip.AddrPortFrom(v.Source, port), true, flow.Open, nil
	case v.Source.IsValid():
		source = netip.AddrPortFrom(v.Source, 0)
		if err := sys.Bind(fd, source); err != nil {
			_ = fd.Close()
			return source, false, flow.CloseNoSource, err
		}
	case t.Client.Addr().IsLinkLocalUnicast():
		m.Inc(metric.Unspoofable)
	case !v.Application:
		m.Inc(metric.UnboundSource)
	}
	return source, false, flow.Open, nil
}
