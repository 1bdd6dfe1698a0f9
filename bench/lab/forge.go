package lab

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// The flags of a TCP segment (RFC 9293, section 3.1).
const (
	FIN uint8 = 1 << iota
	SYN
	RST
	PSH
	ACK
)

// A Segment is a TCP segment without data that no socket stands behind.
type Segment struct {
	From, To netip.AddrPort // of one family; From may be anybody's
	Seq, Ack uint32
	Flags    uint8
}

const (
	ipv4Bytes = 20
	ipv6Bytes = 40
	tcpBytes  = 20
)

// Forge sends segments from inside the namespace, just as they are.
func (s *Space) Forge(segments ...Segment) error {
	err := s.Do(func() error {
		var fds [2]int // one raw socket for each family, made when it is needed
		defer func() {
			for _, fd := range fds {
				if fd > 0 {
					unix.Close(fd)
				}
			}
		}()
		for _, g := range segments {
			fd, family := &fds[0], unix.AF_INET
			if g.To.Addr().Is6() {
				fd, family = &fds[1], unix.AF_INET6
			}
			if *fd == 0 {
				var err error
				// IPPROTO_RAW: the header is ours (raw(7), and inet6_create).
				if *fd, err = unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW); err != nil {
					return fmt.Errorf("raw socket: %w", err)
				}
			}
			if err := unix.Sendto(*fd, g.packet(), 0, g.destination()); err != nil {
				return fmt.Errorf("forge a segment from %v to %v: %w", g.From, g.To, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	return nil
}

// destination is where the packet is sent, for the route; port 0, which a raw
// IPv6 socket insists on.
func (g Segment) destination() unix.Sockaddr {
	if g.To.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: g.To.Addr().As4()}
	}
	return &unix.SockaddrInet6{Addr: g.To.Addr().As16()}
}

// packet is the whole packet.
func (g Segment) packet() []byte {
	const hops = 64
	from, to := g.From.Addr().AsSlice(), g.To.Addr().AsSlice()
	var b []byte
	if g.To.Addr().Is4() {
		// The kernel fills in the rest (raw(7)).
		b = append(b, 0x45, 0, 0, ipv4Bytes+tcpBytes, 0, 0, 0x40, 0, hops, unix.IPPROTO_TCP, 0, 0)
	} else {
		b = append(b, 0x60, 0, 0, 0, 0, tcpBytes, unix.IPPROTO_TCP, hops)
	}
	b = append(append(b, from...), to...)
	tcp := len(b)
	b = binary.BigEndian.AppendUint16(b, g.From.Port())
	b = binary.BigEndian.AppendUint16(b, g.To.Port())
	b = binary.BigEndian.AppendUint32(b, g.Seq)
	b = binary.BigEndian.AppendUint32(b, g.Ack)
	b = append(b, tcpBytes/4<<4, g.Flags, 0x40, 0, 0, 0, 0, 0) // a window of 16384; checksum; urgent
	sum := checksum(0, from)
	sum = checksum(sum, to)
	sum = checksum(sum, []byte{0, unix.IPPROTO_TCP, 0, tcpBytes})
	sum = checksum(sum, b[tcp:])
	binary.BigEndian.PutUint16(b[tcp+16:], ^uint16(sum))
	return b
}

// checksum adds b, of an even length, to a sum in ones' complement (RFC 1071).
func checksum(sum uint32, b []byte) uint32 {
	for ; len(b) > 0; b = b[2:] {
		sum += uint32(b[0])<<8 | uint32(b[1])
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return sum
}
