package tap

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Rules say what a capture has to be.
type Rules struct {
	Secrets []Secret
	// Clear are the addresses of machines that take no part: what they say, and
	// what is said to them, may be clear.
	Clear []netip.Prefix
	// Marks are places, from Tap.Mark, at which counts are divided into windows.
	Marks []int
}

// findsShown is how many finds of one secret a report shows.
const findsShown = 3

// judge walks the packets of a capture.
type judge struct {
	rules   Rules
	capture *Capture
	finder  *finder
	report  *Report
	conns   connections
	windows []Window
}

// Judge looks at all packets. The report's Err says whether the capture passes.
func (c *Capture) Judge(rules Rules) (*Report, error) {
	f, err := newFinder(rules.Secrets)
	if err != nil {
		return nil, fmt.Errorf("judge a capture: %w", err)
	}
	if !slices.IsSorted(rules.Marks) {
		return nil, errors.New("judge a capture: its marks are not in order")
	}
	j := &judge{rules: rules, capture: c, finder: f, windows: make([]Window, len(rules.Marks)+1)}
	j.report = &Report{
		Link: c.Link, Packets: len(c.Packets), Dropped: c.Dropped, Left: c.Left, Cut: c.Cut,
		Kinds: make(map[string]int), Secrets: make([]SecretReport, len(rules.Secrets)),
	}
	for i, s := range rules.Secrets {
		j.report.Secrets[i] = SecretReport{Name: s.Name, Bytes: len(s.Bytes)}
	}
	j.conns = connections{open: make(map[pair]*connection), begin: j.begin}
	d := newDecoder()
	for i, p := range c.Packets {
		j.packet(d, i, p)
	}
	j.finish()
	return j.report, nil
}

func (j *judge) packet(d *decoder, i int, p Packet) {
	j.report.Bytes += int64(p.Length)
	kind, s := d.decode(p.Data)
	j.report.Kinds[kind]++
	if s == nil {
		j.search(p.Data, i, "")
		return
	}
	c := j.conns.of(s)
	if !c.allowed {
		j.search(p.Data, i, c.String())
	}
	c.take(s, i)
}

func (c *connection) String() string { return fmt.Sprintf("%v > %v", c.client, c.server) }

// begin prepares what counts and searches a new connection.
func (j *judge) begin(c *connection) {
	for _, p := range j.rules.Clear {
		c.allowed = c.allowed || p.Contains(c.client.Addr()) || p.Contains(c.server.Addr())
	}
	for i := range c.dir {
		d := &direction{}
		c.dir[i] = d
		d.records.server = i == 1
		d.records.count = func(k kind, n, packet int) {
			d.bytes[k] += int64(n)
			if !c.allowed {
				j.window(packet).add(k, n)
			}
		}
		d.stream.take = d.records.add
		d.stream.edge = func(before, behind []byte, packet int) {
			if !c.allowed {
				j.border(before, behind, packet, c.String())
			}
		}
	}
}

func (j *judge) window(packet int) *Window {
	n, exact := slices.BinarySearch(j.rules.Marks, packet)
	for exact && n < len(j.rules.Marks) && j.rules.Marks[n] == packet {
		n++ // a mark is in front of its packet
	}
	return &j.windows[n]
}

// search looks for secrets in a whole packet.
func (j *judge) search(b []byte, packet int, where string) {
	j.finder.find(b, func(secret, from, to int) { j.found(secret, b[from:to], packet, where) })
}

// border looks for secrets that lie across two packets.
func (j *judge) border(before, behind []byte, packet int, where string) {
	b := slices.Concat(before, behind)
	j.finder.find(b, func(secret, from, to int) {
		if from < len(before) && to > len(before) {
			j.found(secret, b[from:to], packet, where)
		}
	})
}

func (j *judge) found(secret int, b []byte, packet int, where string) {
	j.window(packet).Finds++
	s := &j.report.Secrets[secret]
	if s.Finds++; s.Finds <= findsShown {
		s.Places = append(s.Places, Place{Packet: packet, Connection: where, Bytes: len(b), Excerpt: fmt.Sprintf("%.24q", b)})
	}
}

// finish turns what was gathered into the report.
func (j *judge) finish() {
	r := j.report
	r.Windows = j.windows
	for _, c := range j.conns.all {
		r.Connections = append(r.Connections, c.report())
	}
	fault := func(format string, args ...any) { r.Faults = append(r.Faults, fmt.Sprintf(format, args...)) }
	if r.Dropped > 0 {
		fault("the kernel dropped %d packets before the tap could take them", r.Dropped)
	}
	if r.Left > 0 {
		fault("%d packets were left out, as the capture is full", r.Left)
	}
	if r.Cut > 0 {
		fault("%d packets are not whole", r.Cut)
	}
	for kind, n := range r.Kinds {
		if kind[:min(3, len(kind))] == "bad" {
			fault("%d packets could not be read: %s", n, kind)
		}
	}
	encrypted := 0
	for _, c := range r.Connections {
		switch {
		case c.Allowed || c.Payload == 0:
		case c.Encrypted && len(c.Faults) == 0:
			encrypted++
		case len(c.Faults) == 0:
			fault("%s > %s is not encrypted", c.Client, c.Server)
		default:
			for _, f := range c.Faults {
				fault("%s > %s: %s", c.Client, c.Server, f)
			}
		}
	}
	for _, s := range r.Secrets {
		for _, p := range s.Places {
			fault("%s is readable in packet %d %s: %s", s.Name, p.Packet, p.Connection, p.Excerpt)
		}
	}
	if encrypted == 0 {
		fault("no encrypted connection was seen among %d packets", r.Packets)
	}
}
