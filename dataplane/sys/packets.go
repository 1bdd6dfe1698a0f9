package sys

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Packets sees every packet that passes an interface, in both directions and as
// it is there: what segmentation offload has not cut yet is one packet. The kernel
// copies packets into a ring of blocks and hands over a block that is full or has
// waited for packetBlockTime (packet(7), PACKET_RX_RING with TPACKET_V3).
//
// Its methods are for one thread at a time, but Send, which any may call.
type Packets struct {
	fd      FD
	out     FD // sends
	ifindex int
	ring    []byte // shared with the kernel
	blocks  int
	block   int    // the one that is read, or waited for
	left    uint32 // packets of it that were not read
	offset  uint32 // of the next of them
	open    bool   // the block is ours
}

const (
	packetBlockBytes = 1 << 20
	packetBlockTime  = 10 * time.Millisecond

	blockStatus, blockPackets, blockFirst = 8, 12, 16 // offsets in struct tpacket_block_desc
)

// A Packet is one packet as an interface saw it, from the link's header on.
type Packet struct {
	At     time.Time
	Length int    // on the wire
	Data   []byte // borrowed until the next call of Next; shorter than Length if it was cut
}

// Open makes the socket and a ring of about ringBytes, for the interface of that
// index in the thread's namespace. What passes from then on is seen.
func (p *Packets) Open(ifindex, ringBytes int) error {
	// With protocol 0 nothing is received before bind, when the ring is there.
	raw, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("packet socket: %w", err)
	}
	p.fd.Set(raw)
	if raw, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		p.Close()
		return fmt.Errorf("packet socket: %w", err)
	}
	p.out.Set(raw)
	p.ifindex = ifindex
	p.blocks = max(2, ringBytes/packetBlockBytes)
	if err := p.setUp(); err != nil {
		p.Close()
		return err
	}
	return nil
}

func (p *Packets) setUp() error {
	if err := unix.SetsockoptInt(p.fd.Raw(), unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V3); err != nil {
		return fmt.Errorf("packet ring of version 3: %w", err)
	}
	const frame = 2048 // V3 packs packets of any size into a block; the kernel wants a number that divides it
	err := unix.SetsockoptTpacketReq3(p.fd.Raw(), unix.SOL_PACKET, unix.PACKET_RX_RING, &unix.TpacketReq3{
		Block_size: packetBlockBytes, Block_nr: uint32(p.blocks),
		Frame_size: frame, Frame_nr: uint32(p.blocks * packetBlockBytes / frame),
		Retire_blk_tov: uint32(packetBlockTime.Milliseconds()),
	})
	if err != nil {
		return fmt.Errorf("packet ring of %d MiB: %w", p.blocks, err)
	}
	p.ring, err = unix.Mmap(p.fd.Raw(), 0, p.blocks*packetBlockBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map a packet ring of %d MiB: %w", p.blocks, err)
	}
	if err := unix.Bind(p.fd.Raw(), &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ALL), Ifindex: p.ifindex}); err != nil {
		return fmt.Errorf("bind a packet socket to interface %d: %w", p.ifindex, err)
	}
	return nil
}

// Socket lends the descriptor, to be watched: it is readable when Next has
// something.
func (p *Packets) Socket() *FD { return &p.fd }

// Next returns the next packet, if there is one.
func (p *Packets) Next() (Packet, bool) {
	b := p.ring[p.block*packetBlockBytes:][:packetBlockBytes]
	status := (*uint32)(unsafe.Pointer(&b[blockStatus]))
	if p.open && p.left == 0 { // the last packet of the block is not borrowed any more
		p.open = false
		atomic.StoreUint32(status, unix.TP_STATUS_KERNEL)
		p.block = (p.block + 1) % p.blocks
		return p.Next()
	}
	if !p.open {
		if atomic.LoadUint32(status)&unix.TP_STATUS_USER == 0 {
			return Packet{}, false
		}
		p.open = true
		p.left = binary.NativeEndian.Uint32(b[blockPackets:])
		p.offset = binary.NativeEndian.Uint32(b[blockFirst:])
		if p.left == 0 {
			return p.Next()
		}
	}
	h := (*unix.Tpacket3Hdr)(unsafe.Pointer(&b[p.offset]))
	pkt := Packet{
		At:     time.Unix(int64(h.Sec), int64(h.Nsec)),
		Length: int(h.Len),
		Data:   b[p.offset+uint32(h.Mac):][:h.Snaplen:h.Snaplen],
	}
	p.left--
	p.offset += h.Next_offset
	return pkt, true
}

// Dropped is how many packets found no room since the last call.
func (p *Packets) Dropped() (int, error) {
	s, err := unix.GetsockoptTpacketStatsV3(p.fd.Raw(), unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0, fmt.Errorf("packet statistics: %w", err)
	}
	return int(s.Drops), nil
}

// Send sends a whole frame out of the interface. It is seen too, behind all that
// passed before.
func (p *Packets) Send(frame []byte) error {
	return unix.Sendto(p.out.Raw(), frame, 0, &unix.SockaddrLinklayer{Ifindex: p.ifindex})
}

// Close gives the ring and the sockets back.
func (p *Packets) Close() error {
	if p.ring != nil {
		_ = unix.Munmap(p.ring) // it is a mapping of ours
		p.ring = nil
	}
	_ = p.out.Close()
	return p.fd.Close()
}

func bigEndian(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}
