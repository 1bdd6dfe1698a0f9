package session

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"

	"github.com/sluice-mesh/sluice/dataplane/end"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/h2"
	"github.com/sluice-mesh/sluice/dataplane/hbone"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/mesh"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// A hop is what a flow has more when one of its sides is a stream of a tunnel: the
// server's on its way out, the client's on its way in.
type hop struct {
	stream    *hbone.Stream // nil when there is none yet, or none any more
	key       hbone.Key     // of a flow on its way out
	block     []byte        // and its CONNECT
	authority netip.AddrPort
	us, them  flow.Identity
	detail    string // the error that ended it, if it is none of the kernel's
}

// finish ends the stream of a flow that is not relayed.
func (h *hop) finish(path flow.Path) {
	st := h.stream
	h.stream = nil
	switch {
	case st == nil:
	case path == flow.InboundHBONE:
		st.Refuse(statusUnavailable)
	default:
		st.Close()
	}
}

// know notes who both sides are.
func (h *hop) know(t *hbone.Tunnel) { h.us, h.them = t.Identities() }

// ends are the client's and the server's side.
func (s *Session) ends() (client, server end.End) {
	switch {
	case s.hop == nil:
		return &s.client, &s.server
	case s.path == flow.InboundHBONE:
		return s.hop.stream, &s.server
	}
	return &s.client, s.hop.stream
}

// beginTunnel goes on with a flow that goes by a tunnel, to the loop of that.
func (s *Session) beginTunnel(v flow.Verdict) {
	p := s.pod
	if p.source == nil {
		s.refuse(flow.CloseIdentity, nil)
		return
	}
	s.hop = &hop{
		key:       hbone.Key{From: p, Source: v.Source, Peer: v.Peer, To: v.To},
		block:     p.connect(s.tuple),
		authority: s.tuple.Dst,
	}
	s.move(p.env.Tunnels.dir.Place(s.hop.key, func() *loop.Loop { return p.env.Place(p.home) }))
}

// connect is the CONNECT for a flow, compressed.
func (p *Pod) connect(t flow.Tuple) []byte {
	trace := h2.TraceParent{}
	binary.LittleEndian.PutUint64(trace.Trace[:], rand.Uint64())
	binary.LittleEndian.PutUint64(trace.Trace[8:], rand.Uint64())
	binary.LittleEndian.PutUint64(trace.Span[:], rand.Uint64()|1)
	var text [64]byte
	b := make([]byte, 0, 256)
	b = h2.AppendConnect(b, t.Dst.AppendTo(text[:0]))
	b = h2.AppendField(b, "forwarded", h2.AppendForwarded(text[:0], t.Client, ""))
	b = h2.AppendField(b, "baggage", p.baggage())
	return h2.AppendField(b, "traceparent", trace.Append(text[:0]))
}

// baggage says who the pod is, for telemetry of peers; on the home loop. It is made
// anew when the mesh has changed.
func (p *Pod) baggage() []byte {
	now := p.env.Tunnels.Mesh.Load()
	if p.said.of != now {
		p.said.of, p.said.text = now, p.describe(now)
	}
	return p.said.text
}

// A description is the baggage of a pod.
type description struct {
	of   *mesh.Snapshot // that it was made from
	text []byte
}

func (p *Pod) describe(now *mesh.Snapshot) []byte {
	g := h2.Baggage{Namespace: p.Info.Namespace, Kind: "pod", Workload: p.Info.Name}
	if w := now.ByName(p.Info.Namespace, p.Info.Name, p.Info.ServiceAccount); w != nil {
		g = h2.Baggage{
			Cluster: w.ClusterID, Namespace: w.Namespace, Kind: w.WorkloadType, Workload: w.WorkloadName,
			Service: w.CanonicalName, Revision: w.CanonicalRevision, Region: w.Region, Zone: w.Zone,
		}
	}
	return g.Append(nil)
}

// open opens the stream, on the flow's loop.
func (s *Session) open() {
	s.state = opening
	tun := s.pod.env.Tunnels
	st := hbone.PoolOf(s.loop, tun.Cipher, &tun.dir).Open(s.hop.key, s.hop.block, s)
	if s.state == opening {
		s.hop.stream = st
	}
}

// Opened goes on with the answer to the CONNECT.
func (s *Session) Opened(why flow.CloseReason, err error) {
	if s.state != opening {
		return
	}
	if why != flow.Open {
		s.hop.stream = nil
		if sys.ErrnoOf(err) == 0 {
			s.hop.detail = err.Error()
		}
		s.finish(why, err)
		return
	}
	s.hop.know(s.hop.stream.Tunnel())
	s.hop.block = nil
	s.state = relaying
	client, server := s.ends()
	s.pair.Join(s.loop, &s.pod.env.Relay, client, server, s)
}
