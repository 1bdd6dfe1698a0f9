package tap

import (
	"errors"
	"fmt"
	"io"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

// Write writes the capture as pcapng, for other programs.
func (c *Capture) Write(w io.Writer) error {
	nw, err := pcapgo.NewNgWriterInterface(w, pcapgo.NgInterface{
		Name: c.Link, LinkType: layers.LinkTypeEthernet, TimestampResolution: 9,
	}, pcapgo.DefaultNgWriterOptions)
	if err != nil {
		return fmt.Errorf("write capture of %s: %w", c.Link, err)
	}
	for _, p := range c.Packets {
		info := gopacket.CaptureInfo{Timestamp: p.At, CaptureLength: len(p.Data), Length: p.Length}
		if err := nw.WritePacket(info, p.Data); err != nil {
			return fmt.Errorf("write capture of %s: %w", c.Link, err)
		}
	}
	stats := pcapgo.NgInterfaceStatistics{PacketsReceived: uint64(len(c.Packets)), PacketsDropped: uint64(c.missed())}
	if len(c.Packets) > 0 {
		stats.LastUpdate = c.Packets[len(c.Packets)-1].At
	}
	if err := nw.WriteInterfaceStats(0, stats); err != nil {
		return fmt.Errorf("write capture of %s: %w", c.Link, err)
	}
	if err := nw.Flush(); err != nil {
		return fmt.Errorf("write capture of %s: %w", c.Link, err)
	}
	return nil
}

// missed is how many packets are not in the capture.
func (c *Capture) missed() int { return c.Dropped + c.Left }

// Read reads what Write wrote, or another program: pcapng of one Ethernet link.
func Read(r io.Reader) (*Capture, error) {
	nr, err := pcapgo.NewNgReader(r, pcapgo.DefaultNgReaderOptions)
	if err != nil {
		return nil, fmt.Errorf("read capture: %w", err)
	}
	if nr.LinkType() != layers.LinkTypeEthernet {
		return nil, fmt.Errorf("read capture: link type %v; want Ethernet", nr.LinkType())
	}
	c := &Capture{}
	for {
		data, info, err := nr.ReadPacketData()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read capture: packet %d: %w", len(c.Packets)+1, err)
		}
		if len(data) < info.Length {
			c.Cut++
		}
		c.Packets = append(c.Packets, Packet{At: info.Timestamp, Length: info.Length, Data: data})
	}
	if link, err := nr.Interface(0); err == nil {
		c.Link = link.Name
		if n := link.Statistics.PacketsDropped; n != pcapgo.NgNoValue64 {
			c.Dropped = int(n)
		}
	}
	return c, nil
}
