// Package tap captures a link and judges whether what passed there was encrypted:
// TLS 1.3 without a server name, and nothing readable of what should be secret.
//
// Data enters from a packet socket in the link's namespace, or from a file that was
// captured before; it leaves as a Report. A capture that missed anything, or saw
// nothing, never passes.
//
// Owns: a Tap its sockets and the goroutine that empties them, until Stop or Close.
// Threads: any; a Capture does not change any more.
package tap

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// Config says what is captured.
type Config struct {
	Interface string // as it is called in the namespace
	MaxBytes  int    // of packets that are kept; 0 means 256 MiB. What is beyond is a fault
	RingBytes int    // between kernel and tap; 0 means 32 MiB
}

const (
	defaultMaxBytes  = 256 << 20
	defaultRingBytes = 32 << 20
	markPatience     = 10 * time.Second
	markEvery        = 200 * time.Millisecond
	readerBeat       = 50 * time.Millisecond // the reader looks whether it is to end
)

// A Tap is a capture under way.
type Tap struct {
	packets sys.Packets
	poll    sys.Poller
	id      [8]byte // begins the marks of this tap
	max     int

	mu      sync.Mutex // of Mark, Stop and Close
	sent    uint64     // marks
	seen    chan mark
	closing chan struct{}
	done    chan struct{} // the reader has ended; what follows belongs to it before
	capture Capture
	bytes   int
	room    []byte
	err     error
	closed  bool
}

// A mark is a frame that the tap sent itself: all that passed before it was seen.
type mark struct {
	number uint64
	at     int // packets before it
}

// Open taps an interface in a namespace. What passes once it has returned is seen.
func Open(in *netns.Handle, cfg Config) (*Tap, error) {
	t, err := open(in, cfg)
	if err != nil {
		return nil, fmt.Errorf("tap %s: %w", cfg.Interface, err)
	}
	go t.read()
	return t, nil
}

// open does all but start the reader.
func open(in *netns.Handle, cfg Config) (*Tap, error) {
	t := &Tap{
		max:     cmp.Or(cfg.MaxBytes, defaultMaxBytes),
		seen:    make(chan mark, 1),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
	}
	if _, err := rand.Read(t.id[:]); err != nil {
		return nil, err
	}
	t.capture.Link = cfg.Interface
	err := in.Do(func() error {
		link, err := net.InterfaceByName(cfg.Interface)
		if err != nil {
			return err
		}
		return t.packets.Open(link.Index, cmp.Or(cfg.RingBytes, defaultRingBytes))
	})
	if err != nil {
		return nil, err
	}
	err = t.poll.Open()
	if err == nil {
		err = t.poll.Add(t.packets.Socket(), sys.Readable, 0)
	}
	if err != nil {
		return nil, errors.Join(err, t.poll.Close(), t.packets.Close())
	}
	return t, nil
}

// Mark waits until all that has passed is captured, and returns how many packets
// that are: a place in the capture.
func (t *Tap) Mark() (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.markLocked()
}

func (t *Tap) markLocked() (int, error) {
	if t.closed {
		return 0, fmt.Errorf("tap %s: %w", t.capture.Link, net.ErrClosed)
	}
	t.sent++
	late := time.NewTimer(markPatience)
	defer late.Stop()
	again := time.NewTicker(markEvery) // a full ring drops marks, too
	defer again.Stop()
	for {
		if err := t.packets.Send(t.frame(t.sent)); err != nil {
			return 0, fmt.Errorf("tap %s: send a mark: %w", t.capture.Link, err)
		}
		select {
		case m := <-t.seen:
			if m.number == t.sent {
				return m.at, nil
			}
		case <-t.done:
			return 0, fmt.Errorf("tap %s: %w", t.capture.Link, cmp.Or(t.err, net.ErrClosed))
		case <-late.C:
			return 0, fmt.Errorf("tap %s: its own mark did not pass within %v: is the link up?", t.capture.Link, markPatience)
		case <-again.C:
		}
	}
}

// Stop ends the tap with all that passed until now.
func (t *Tap) Stop() (*Capture, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, err := t.markLocked()
	err = errors.Join(err, t.closeLocked())
	if err != nil {
		return nil, err
	}
	return &t.capture, nil
}

// Close ends the tap, whatever was captured. A second Close does nothing.
func (t *Tap) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closeLocked()
}

func (t *Tap) closeLocked() error {
	if t.closed {
		return nil
	}
	t.closed = true
	close(t.closing)
	<-t.done
	return errors.Join(t.err, t.poll.Close(), t.packets.Close())
}

// experimental is for private experiments (IEEE 802, local experimental 1).
const experimental = 0x88b5

func (t *Tap) frame(n uint64) []byte {
	f := make([]byte, 60) // the shortest that every link takes; addresses stay zero: nobody's
	binary.BigEndian.PutUint16(f[12:], experimental)
	copy(f[14:], t.id[:])
	binary.BigEndian.PutUint64(f[22:], n)
	return f
}

// markOf reads the number of a mark of this tap.
func (t *Tap) markOf(frame []byte) (uint64, bool) {
	if len(frame) < 30 || binary.BigEndian.Uint16(frame[12:]) != experimental || !bytes.Equal(frame[14:22], t.id[:]) {
		return 0, false
	}
	return binary.BigEndian.Uint64(frame[22:]), true
}

// read empties the ring until the tap is closed.
func (t *Tap) read() {
	defer close(t.done)
	var events [1]sys.Event
	for {
		for {
			p, ok := t.packets.Next()
			if !ok {
				break
			}
			if n, ok := t.markOf(p.Data); ok {
				t.tell(mark{n, len(t.capture.Packets)})
				continue
			}
			t.keep(p)
		}
		select {
		case <-t.closing:
			n, err := t.packets.Dropped()
			t.capture.Dropped += n
			t.err = err
			return
		default:
		}
		if _, err := t.poll.Wait(events[:], readerBeat); err != nil {
			t.err = fmt.Errorf("tap %s: wait: %w", t.capture.Link, err)
			return
		}
	}
}

// tell leaves the newest mark for Mark, which may have given up on the one before.
func (t *Tap) tell(m mark) {
	select {
	case <-t.seen:
	default:
	}
	t.seen <- m
}

// keep copies a packet out of the ring, while there is room.
func (t *Tap) keep(p sys.Packet) {
	if t.bytes += len(p.Data); t.bytes > t.max {
		t.capture.Left++
		return
	}
	if len(t.room) < len(p.Data) {
		t.room = make([]byte, max(1<<20, len(p.Data)))
	}
	data := t.room[:len(p.Data):len(p.Data)]
	t.room = t.room[len(p.Data):]
	copy(data, p.Data)
	if len(p.Data) < p.Length {
		t.capture.Cut++
	}
	t.capture.Packets = append(t.capture.Packets, Packet{At: p.At, Length: p.Length, Data: data})
}

// A Capture is what passed.
type Capture struct {
	Link    string
	Packets []Packet
	Dropped int // packets for which the kernel found no room
	Left    int // packets beyond MaxBytes
	Cut     int // packets of which only a part was kept
}

// A Packet is one packet from its Ethernet header on.
type Packet struct {
	At     time.Time
	Length int // on the wire
	Data   []byte
}

// Until is the part of the capture before a place that Mark returned.
func (c *Capture) Until(place int) *Capture {
	part := *c
	part.Packets = slices.Clip(c.Packets[:place])
	return &part
}
