package hbone

import (
	"errors"
	"io"

	"github.com/sluice-mesh/sluice/dataplane/end"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/tlsrec"
)

const (
	readBytes = 256 << 10 // what one read takes at most
	// readTurn is how much a tunnel reads in a turn before others have theirs.
	readTurn = 1 << 20
	// mostRecords bounds how many records are opened before their frames are read.
	mostRecords = 64
)

// A box is where a read of a tunnel goes, and what was found in it: a loop has one,
// and one more for each tunnel that runs inside another. It is borrowed for the
// length of a read.
type box struct {
	mem      []byte // a partial record of the last read, then this one
	have     int    // bytes of the partial record
	room     [1][]byte
	payloads [mostRecords][]byte
	pieces   []piece   // of DATA, by stream
	touched  []*Stream // that have pieces, or an end
}

// A piece is a slice of DATA in the box.
type piece struct {
	data []byte
	next int32 // the stream's next one; -1 for none
}

type boxesKey struct{}

// boxes are those of a loop that are not in use.
type boxes struct{ free []*box }

func localBoxes(l *loop.Loop) *boxes {
	return l.Local(boxesKey{}, func(*loop.Loop) any { return new(boxes) }).(*boxes)
}

func (b *boxes) take() *box {
	if n := len(b.free); n > 0 {
		x := b.free[n-1]
		b.free = b.free[:n-1]
		return x
	}
	return &box{mem: make([]byte, tlsrec.MaxRecord+readBytes)}
}

func (b *boxes) put(x *box) {
	clear(x.pieces)
	clear(x.touched)
	x.pieces, x.touched, x.have = x.pieces[:0], x.touched[:0], 0
	b.free = append(b.free, x)
}

// inbox is a tunnel as the sink of its lower end.
type inbox Tunnel

// Room lends the loop's box, behind what is left of the read before.
func (i *inbox) Room(max int) [][]byte {
	b := (*Tunnel)(i).open()
	b.room[0] = b.mem[b.have:][:min(max, readBytes)]
	return b.room[:]
}

// open borrows a box and puts the partial record into it.
func (t *Tunnel) open() *box {
	if t.box == nil {
		t.box = t.boxes.take()
	}
	t.box.have = 0
	if t.tail != nil {
		t.box.have = copy(t.box.mem, t.tail.Filled())
	}
	return t.box
}

// Commit deals with n bytes that were read.
func (i *inbox) Commit(n int) error {
	t := (*Tunnel)(i)
	all := t.box.mem[:t.box.have+n]
	t.dropTail()
	t.received(all)
	return nil
}

// Write takes ciphertext that lies in memory: that of a tunnel inside another.
func (i *inbox) Write(bufs [][]byte) (total int, err error) {
	t := (*Tunnel)(i)
	for _, p := range bufs {
		for len(p) > 0 && !t.closed {
			b := t.open()
			n := copy(b.mem[b.have:], p)
			p = p[n:]
			total += n
			_ = i.Commit(n)
			t.close()
			t.serve()
		}
	}
	return total, nil
}

// Unsent is 0: what comes is dealt with at once.
func (i *inbox) Unsent() int { return 0 }

// Finish is of no use: the tunnel is told by Pull.
func (i *inbox) Finish(flow.CloseReason) {}

// close gives the box back, when nobody is inside it.
func (t *Tunnel) close() {
	if b := t.box; b != nil {
		t.box = nil
		t.boxes.put(b)
	}
}

// lowerPeer is a tunnel as its lower end sees it.
type lowerPeer Tunnel

// Readable reads as much as a turn allows.
func (p *lowerPeer) Readable() { (*Tunnel)(p).pull() }

func (t *Tunnel) pull() {
	if t.box != nil || t.queued || t.closed || t.handshake == nil && t.records == nil {
		return // in the last case it is not known yet who we are: Accept reads
	}
	for total := 0; !t.closed; {
		if t.handshake != nil && len(t.unfed) > 0 {
			return // it goes on when the handshake has
		}
		n, next, err := t.lower.Pull((*inbox)(t), readBytes)
		t.close()
		t.serve()
		switch {
		case t.closed || err != nil:
			return // and the lower end has told
		case next == end.Ended:
			t.Fail(t.resetReason(), ErrLost)
			return
		case next != end.Nothing:
			return
		}
		if total += n; total >= readTurn {
			t.queued = true
			t.loop.Again((*puller)(t))
			return
		}
	}
}

// puller goes on to read in the next turn.
type puller Tunnel

// Run reads on.
func (p *puller) Run() {
	p.queued = false
	(*Tunnel)(p).pull()
}

// Panicked ends the tunnel.
func (p *puller) Panicked(v any) { (*Tunnel)(p).Panicked(v) }

// Writable goes on to send.
func (p *lowerPeer) Writable() {
	t := (*Tunnel)(p)
	t.flush()
	t.serve()
}

// Ended ends the tunnel with its connection.
func (p *lowerPeer) Ended(why flow.CloseReason, err error) {
	t := (*Tunnel)(p)
	t.pull() // what arrived before
	if err == nil {
		err = ErrLost
	}
	t.Fail(why, err)
}

// Panicked ends the tunnel.
func (p *lowerPeer) Panicked(v any) { (*Tunnel)(p).Panicked(v) }

// received deals with bytes of the lower end: all is ciphertext, or belongs to the
// handshake.
func (t *Tunnel) received(all []byte) {
	if t.handshake != nil {
		t.unfed = append(t.unfed, all...)
		t.feed()
		return
	}
	b := t.box
	for len(all) > 0 && !t.closed {
		payloads, n, err := t.records.Open(all, b.payloads[:0])
		all = all[n:]
		for _, p := range payloads {
			if !t.closed {
				t.frames(p)
			}
		}
		clear(payloads)
		t.deliver()
		if t.closed {
			return
		}
		switch {
		case errors.Is(err, io.EOF):
			t.Fail(t.resetReason(), ErrLost)
			return
		case err != nil:
			t.refuseRecord(err)
			return
		}
		if n == 0 {
			break
		}
	}
	if t.closed {
		return
	}
	if err := t.keepTail(all); err != nil {
		t.Fail(flow.CloseLimit, err)
		return
	}
	if t.records.Owes() {
		if err := t.out.owed(); err != nil {
			t.Fail(flow.CloseInternal, err)
			return
		}
		t.flushLater()
	}
}

// keepTail holds the beginning of a record until the rest comes.
func (t *Tunnel) keepTail(p []byte) (err error) {
	if len(p) == 0 {
		return nil
	}
	if t.tail, err = t.loop.Blocks.Get(); err != nil {
		return err
	}
	t.tail.Add(copy(t.tail.Free(), p))
	return nil
}

func (t *Tunnel) dropTail() {
	if t.tail != nil {
		t.tail.Release()
		t.tail = nil
	}
}

// deliver tells streams what this read has for them, each once: its pieces go out by
// one call.
func (t *Tunnel) deliver() {
	b := t.box
	for i := 0; i < len(b.touched); i++ {
		s := b.touched[i]
		s.touched = false
		if s.closed {
			s.first = -1
			continue
		}
		if s.behind == 0 && s.peer != nil {
			s.peer.Readable()
		}
		if s.closed {
			continue
		}
		if err := s.keep(); err != nil {
			s.broken(flow.CloseLimit, err)
			continue
		}
		if s.wasReset {
			s.ended()
		}
	}
	clear(b.pieces)
	clear(b.touched)
	b.pieces, b.touched = b.pieces[:0], b.touched[:0]
}
