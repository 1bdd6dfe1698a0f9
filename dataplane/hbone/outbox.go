package hbone

import (
	"github.com/sluice-mesh/sluice/dataplane/buf"
	"github.com/sluice-mesh/sluice/dataplane/h2"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/tlsrec"
)

const (
	// fullBytes is how much may wait for the lower end before streams have to.
	fullBytes = 256 << 10
	// wideBytes is the largest frame that we send: with its header it fills
	// records, and is read by one call.
	wideBytes = 256<<10 - h2.HeadBytes
	// leastBytes is the least plaintext for which a record is begun in what is
	// left of a block.
	leastBytes = 512
)

// An outbox is what a tunnel has to send: sealed records, oldest first, and
// behind them one open record that still takes frames.
//
// Invariant: open is 0, or the open record begins at the free part of the last
// block, its plaintext tlsrec.HeaderLen behind that.
type outbox struct {
	records *tlsrec.Conn
	loop    *loop.Loop
	blocks  []*buf.Block
	unsent  int // sealed bytes in blocks
	open    int // bytes of plaintext in the open record

	lent lent
}

// lent is the room that was lent last: what Commit needs to go the same way again.
type lent struct {
	wide  bool         // one frame goes over all records; else each has its own
	next  []*buf.Block // blocks behind the last one, in order
	room  [24][]byte   // what was lent
	bytes int          // the sum of it
}

// owed seals what TLS has to say before more data: a change of keys. It stands
// behind what was sealed, and in front of the open record, which moves for it:
// recordSize has left the room.
func (o *outbox) owed() error {
	if !o.records.OwesWithin(len(o.lent.room)) {
		return nil
	}
	o.records.RequestUpdate(false)
	var buf [tlsrec.OwedLen]byte
	p, err := o.records.AppendOwed(buf[:0])
	if err != nil || len(p) == 0 {
		return err
	}
	if err := o.block(); err != nil {
		return err
	}
	b := o.blocks[len(o.blocks)-1]
	free := b.Free()
	copy(free[len(p)+tlsrec.HeaderLen:], free[tlsrec.HeaderLen:tlsrec.HeaderLen+o.open])
	o.sealed(b, copy(free, p))
	return o.seal()
}

// size is the plaintext that the open record, or one that is begun now, can hold.
func (o *outbox) size() int {
	if len(o.blocks) == 0 {
		return 0
	}
	return recordSize(o.blocks[len(o.blocks)-1].Free())
}

func recordSize(free []byte) int {
	n := len(free) - tlsrec.Overhead - tlsrec.OwedLen
	if n < leastBytes {
		return 0
	}
	return min(n, tlsrec.MaxPlaintext)
}

// pending is how much waits, sealed or not.
func (o *outbox) pending() int { return o.unsent + o.open }

// block makes sure that there is room to begin a record, or goes on with the
// open one.
func (o *outbox) block() error {
	if o.open > 0 || o.size() > 0 {
		return nil
	}
	b, err := o.loop.Blocks.Get()
	if err != nil {
		return err
	}
	o.take(b)
	return nil
}

func (o *outbox) take(b *buf.Block) {
	o.blocks = append(o.blocks, b)
	o.loop.Metrics.Move(metric.HeldBlocks, 1)
}

// plain is where plaintext of the open record lies, up to its full size.
func (o *outbox) plain() []byte {
	free := o.blocks[len(o.blocks)-1].Free()
	return free[tlsrec.HeaderLen : tlsrec.HeaderLen+recordSize(free)]
}

// seal ends the open record.
func (o *outbox) seal() error {
	if o.open == 0 {
		return nil
	}
	b := o.blocks[len(o.blocks)-1]
	n, err := o.records.Seal(b.Free(), o.open)
	if err != nil {
		return err
	}
	o.open = 0
	o.sealed(b, n)
	return nil
}

// sealed says that the first n bytes of what is free in b are a record now.
func (o *outbox) sealed(b *buf.Block, n int) {
	b.Add(n)
	o.unsent += n
	o.loop.Metrics.Move(metric.HeldBytes, int64(n))
	o.loop.Metrics.Inc(metric.RecordsSealed)
}

// add appends p, whole frames, to what is to be sent.
func (o *outbox) add(p []byte) error {
	if err := o.owed(); err != nil {
		return err
	}
	for len(p) > 0 {
		if err := o.block(); err != nil {
			return err
		}
		n := copy(o.plain()[o.open:], p)
		o.open += n
		p = p[n:]
		if len(p) > 0 {
			if err := o.seal(); err != nil {
				return err
			}
		}
	}
	return nil
}

// room lends space for up to max bytes of payload, at most frame of them in one
// frame, which is never less than a record holds (RFC 9113 6.5.2); in one block unless
// much is set. Nothing of the outbox changes but the
// open record, which may be ended.
func (o *outbox) room(max, frame int, much bool) ([][]byte, error) {
	l := &o.lent
	l.drop()
	if err := o.owed(); err != nil {
		return nil, err
	}
	if o.open > 0 && o.open+h2.HeadBytes+leastBytes > len(o.plain()) {
		if err := o.seal(); err != nil {
			return nil, err
		}
	}
	if err := o.block(); err != nil {
		return nil, err
	}
	max = min(max, wideBytes)
	if l.wide = frame > 2*tlsrec.MaxPlaintext; l.wide {
		max = min(max, frame)
	}
	free := o.blocks[len(o.blocks)-1].Free()
	plain, at := o.plain(), o.open
	n := 0
	for max > 0 && n < len(l.room) {
		if n == 0 || !l.wide {
			at += h2.HeadBytes
		}
		space := plain[at:]
		space = space[:min(len(space), max)]
		l.room[n] = space
		n++
		max -= len(space)
		// The record behind that one, when it is filled.
		free = free[tlsrec.Overhead+at+len(space):]
		if recordSize(free) == 0 {
			if !much || max == 0 {
				break
			}
			b, err := o.loop.Blocks.Get()
			if err != nil {
				break // what is lent is enough to go on
			}
			l.next = append(l.next, b)
			free = b.Free()
		}
		plain, at = free[tlsrec.HeaderLen:tlsrec.HeaderLen+recordSize(free)], 0
	}
	l.bytes = 0
	for _, r := range l.room[:n] {
		l.bytes += len(r)
	}
	return l.room[:n], nil
}

// commit says that the first n bytes of the room lent last are data of stream id.
func (o *outbox) commit(id uint32, n int) error {
	l := &o.lent
	defer l.drop()
	for first, left := true, n; left > 0; first = false {
		if !first {
			if err := o.seal(); err != nil {
				return err
			}
			if o.size() == 0 {
				o.take(l.next[0])
				l.next = l.next[1:]
			}
		}
		plain := o.plain()
		size := left
		if first || !l.wide {
			if !l.wide {
				size = min(left, len(plain)-o.open-h2.HeadBytes)
			}
			h2.PutDataHeader(plain[o.open:], size, id, false)
			o.open += h2.HeadBytes
		}
		size = min(size, len(plain)-o.open)
		o.open += size
		left -= size
	}
	return nil
}

// drop gives back the blocks that were lent and not used.
func (l *lent) drop() {
	for _, b := range l.next {
		b.Release()
	}
	l.next = l.next[:0]
}

// sent says that the first n sealed bytes were taken by the lower end. No record is
// open: its block may go.
func (o *outbox) sent(n int) {
	o.unsent -= n
	o.loop.Metrics.Move(metric.HeldBytes, -int64(n))
	for n > 0 {
		b := o.blocks[0]
		part := min(n, b.Len())
		n -= part
		if part < b.Len() {
			b.Consume(part)
			break
		}
		o.free(b)
		o.blocks = append(o.blocks[:0], o.blocks[1:]...)
	}
}

func (o *outbox) free(b *buf.Block) {
	b.Release()
	o.loop.Metrics.Move(metric.HeldBlocks, -1)
}

// close gives everything back.
func (o *outbox) close() {
	o.lent.drop()
	for _, b := range o.blocks {
		o.free(b)
	}
	o.loop.Metrics.Move(metric.HeldBytes, -int64(o.unsent))
	o.blocks, o.unsent, o.open = nil, 0, 0
}
