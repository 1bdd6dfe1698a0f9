package tap

import (
	"fmt"
	"net/netip"
	"slices"
)

// pair are the two ends of a connection, the lower one first.
type pair struct{ a, b netip.AddrPort }

func pairOf(x, y netip.AddrPort) pair {
	if x.Compare(y) > 0 {
		x, y = y, x
	}
	return pair{x, y}
}

// A connection is what is known of one while the packets are walked.
type connection struct {
	client, server netip.AddrPort
	allowed        bool // one of them may talk in the clear
	joined         bool // the tap came later than its beginning
	packets        int
	reset          bool
	isn            uint32
	dir            [2]*direction // up, down
}

// A direction of a connection.
type direction struct {
	stream  stream
	records records
	bytes   [kinds]int64
}

// connections finds the connection that a segment belongs to.
type connections struct {
	open  map[pair]*connection
	all   []*connection
	begin func(*connection)
}

func (cs *connections) of(s *segment) *connection {
	key := pairOf(s.from, s.to)
	c := cs.open[key]
	if c != nil && !(s.syn && !s.ack && c.over() && s.seq != c.isn) {
		return c
	}
	c = &connection{client: s.from, server: s.to, isn: s.seq}
	switch {
	case s.syn && s.ack: // its SYN passed before the tap was there
		c.client, c.server, c.joined = s.to, s.from, true
	case !s.syn:
		c.joined = true
		if s.to.Port() > s.from.Port() {
			c.client, c.server = s.to, s.from // as it looks: ephemeral ports are high
		}
	}
	cs.begin(c)
	cs.open[key] = c
	cs.all = append(cs.all, c)
	return c
}

// over is whether the same addresses may begin anew.
func (c *connection) over() bool {
	return c.reset || c.dir[0].stream.ended && c.dir[1].stream.ended || !c.dir[0].stream.begun
}

// take adds a segment.
func (c *connection) take(s *segment, packet int) {
	c.packets++
	d := c.dir[0]
	if s.from == c.server {
		d = c.dir[1]
	}
	seq := s.seq
	if s.syn {
		seq++ // SYN takes a number
	}
	if !d.stream.begun {
		d.stream.begin(seq)
	}
	d.stream.add(seq, s.payload, packet)
	d.stream.ended = d.stream.ended || s.fin
	c.reset = c.reset || s.rst
}

// faults is why the connection was not encrypted as it should be.
func (c *connection) faults() []string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if c.joined {
		add("it was open before the tap was there, so its records can't be walked")
	}
	for i, name := range []string{"up", "down"} {
		d := c.dir[i]
		if d.stream.gap() {
			add("%s: bytes are missing behind byte %d", name, d.stream.next)
		}
		if d.records.off {
			add("%s: %s", name, d.records.why)
		}
		if d.stream.ended && !c.reset && !d.stream.gap() && d.records.inside() && !d.records.off {
			add("%s: it ends within a record", name)
		}
	}
	up, down := &c.dir[0].records, &c.dir[1].records
	if h := up.client; h != nil {
		if h.named {
			add("the ClientHello names a server: %q", h.name)
		}
		if !slices.Contains(h.versions, tls13) {
			add("the ClientHello offers no TLS 1.3")
		}
	}
	if h := down.choice; h != nil && h.version != tls13 {
		add("the server chose %s", versionName(h.version))
	}
	return all
}

const tls13 = 0x0304

// payload is how many bytes both sides sent.
func (c *connection) payload() int64 { return c.dir[0].stream.next + c.dir[1].stream.next }

// encrypted is whether TLS 1.3 was chosen and carried something each way, and
// nothing was clear.
func (c *connection) encrypted() bool {
	up, down := &c.dir[0].records, &c.dir[1].records
	return up.client != nil && down.choice != nil && !down.choice.retry && down.choice.version == tls13 && up.sealed > 0 && down.sealed > 0 &&
		c.dir[0].bytes[clear]+c.dir[1].bytes[clear] == 0
}
