package dial

import (
	"hash/maphash"
	"net/netip"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// A Range is a span of port numbers, both ends included.
type Range struct{ First, Last uint16 }

// The ranges that spoofed connections to the application draw from: outside
// what clients use as ephemeral ports, in the order of preference.
var defaultRanges = []Range{{16384, 32767}, {10240, 16383}}

// A tuple is one half of a captured inbound flow in the pod's 4-tuple space:
// either the client's own connection, which the proxy accepted, or the proxy's,
// which pretends to come from the client. Both have the same destination, and
// no two may be equal.
type tuple struct {
	client, dst [16]byte
	cport, port uint16
}

func makeTuple(client netip.AddrPort, dst netip.AddrPort) tuple {
	return tuple{client: client.Addr().As16(), dst: dst.Addr().As16(), cport: client.Port(), port: dst.Port()}
}

// Ports chooses the source port of connections to a pod's own application, and
// knows which are taken. It belongs to the pod's home loop.
//
// It keeps hashes only: an idle flow costs a quarter of what its tuples would. Two
// tuples of one hash make a free port look taken, which costs the next port.
//
// Left to the kernel, the connection (client, any port, application) gets the
// very port that the client used: both hash the same addresses. Its SYN would
// then land on the proxy's own accepted socket and the connect would hang
// without an error. So the kernel is never asked.
type Ports struct {
	ranges []Range
	seed   maphash.Seed
	taken  map[uint64]int32 // by hash of tuple: how often it was noted; a flow that is thawed may overlap its own past
	cursor uint32           // advances by every choice, so that a port is not reused at once
}

// NewPorts makes an empty table. nil ranges mean 16384–32767, then 10240–16383.
func NewPorts(ranges []Range) *Ports {
	if ranges == nil {
		ranges = defaultRanges
	}
	return &Ports{ranges: ranges, seed: maphash.MakeSeed(), taken: map[uint64]int32{}}
}

// Hold notes a live tuple: a connection that was accepted from client to dst,
// or one that was thawed.
func (p *Ports) Hold(client, dst netip.AddrPort) { p.taken[p.hash(makeTuple(client, dst))]++ }

// Release forgets what Hold or Choose noted.
func (p *Ports) Release(client, dst netip.AddrPort) {
	h := p.hash(makeTuple(client, dst))
	if p.taken[h]--; p.taken[h] <= 0 {
		delete(p.taken, h)
	}
}

func (p *Ports) hash(t tuple) uint64 { return maphash.Comparable(p.seed, t) }

// Len is how many tuples are noted.
func (p *Ports) Len() int { return len(p.taken) }

// A Binder tries to bind the socket that a port is chosen for.
type Binder interface{ TryBind(port uint16) error }

// Choose finds a source port for a connection from client's address to dst, and
// notes it. by binds it: EADDRINUSE (somebody listens on that number) and
// EADDRNOTAVAIL go on to the next port, any other error ends the search.
//
// Linux gives ephemeral ports of one parity to connect (Linux 4.2, see
// __inet_hash_connect), so the parity opposite to the client's own port comes
// first in each range; the other one only when both ranges are used up. skipped
// counts ports that were passed over, spilled says that the preferred range and
// parity were used up. EADDRNOTAVAIL means that no port is left.
func (p *Ports) Choose(client, dst netip.AddrPort, by Binder) (port uint16, skipped int, spilled bool, err error) {
	t := makeTuple(client, dst)
	own := t.cport
	p.cursor++
	for _, parity := range [2]uint32{uint32(own&1) ^ 1, uint32(own & 1)} {
		for _, r := range p.ranges {
			first := uint32(r.First)
			if first&1 != parity {
				first++
			}
			if first > uint32(r.Last) {
				continue
			}
			n := (uint32(r.Last)-first)/2 + 1
			for i := range n {
				t.cport = uint16(first + 2*((p.cursor+i)%n))
				h := p.hash(t)
				if _, live := p.taken[h]; live || t.cport == own {
					skipped++
					continue
				}
				err := by.TryBind(t.cport)
				if err == nil {
					p.cursor += i
					p.taken[h]++
					return t.cport, skipped, spilled, nil
				}
				if err != sys.EADDRINUSE && err != sys.EADDRNOTAVAIL {
					return 0, skipped, spilled, err
				}
				skipped++
			}
			spilled = true
		}
	}
	return 0, skipped, spilled, sys.EADDRNOTAVAIL
}
