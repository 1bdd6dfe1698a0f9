package tap

import (
	"net/netip"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// A segment is a TCP segment.
type segment struct {
	from, to           netip.AddrPort
	seq                uint32
	syn, ack, fin, rst bool
	payload            []byte
}

// A decoder reads packets; its layers are used again and again.
type decoder struct {
	parser  *gopacket.DecodingLayerParser
	eth     layers.Ethernet
	ip4     layers.IPv4
	ip6     layers.IPv6
	tcp     layers.TCP
	udp     layers.UDP
	icmp4   layers.ICMPv4
	icmp6   layers.ICMPv6
	arp     layers.ARP
	payload gopacket.Payload
	found   []gopacket.LayerType
}

func newDecoder() *decoder {
	d := &decoder{}
	d.parser = gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet,
		&d.eth, &d.ip4, &d.ip6, &d.tcp, &d.udp, &d.icmp4, &d.icmp6, &d.arp, &d.payload)
	d.parser.IgnoreUnsupported = true
	return d
}

// decode says what kind of packet it is; for TCP, also the segment. A kind that
// begins with "bad" could not be read to its end.
func (d *decoder) decode(b []byte) (string, *segment) {
	if err := d.parser.DecodeLayers(b, &d.found); err != nil {
		return "bad packet", nil
	}
	var from, to netip.Addr
	last := layers.LayerTypeEthernet
	for _, l := range d.found {
		switch l {
		case layers.LayerTypeIPv4:
			from, to = address(d.ip4.SrcIP), address(d.ip4.DstIP)
			if d.ip4.FragOffset != 0 || d.ip4.Flags&layers.IPv4MoreFragments != 0 {
				return "bad: fragment", nil
			}
		case layers.LayerTypeIPv6:
			from, to = address(d.ip6.SrcIP), address(d.ip6.DstIP)
			if d.ip6.NextHeader == layers.IPProtocolIPv6Fragment {
				return "bad: fragment", nil
			}
		case layers.LayerTypeTCP:
			t := &d.tcp
			return "TCP", &segment{
				from: netip.AddrPortFrom(from, uint16(t.SrcPort)), to: netip.AddrPortFrom(to, uint16(t.DstPort)),
				seq: t.Seq, syn: t.SYN, ack: t.ACK, fin: t.FIN, rst: t.RST, payload: t.Payload,
			}
		}
		if l != gopacket.LayerTypePayload {
			last = l
		}
	}
	if last == layers.LayerTypeEthernet {
		return d.eth.EthernetType.String(), nil
	}
	return last.String(), nil
}

func address(ip []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(ip) // the decoder gives 4 or 16 bytes
	return a
}
