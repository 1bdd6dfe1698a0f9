package buf_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/buf"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

func heap(size int) ([]byte, error) { return make([]byte, size), nil }

func get(t *testing.T, p *buf.Pool) *buf.Block {
	t.Helper()
	b, err := p.Get()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// panics returns what fn panics with; nil when it does not.
func panics(fn func()) (v any) {
	defer func() { v = recover() }()
	fn()
	return nil
}

func TestBlock(t *testing.T) {
	b := get(t, buf.NewPool(heap, nil, false))
	if b.Len() != 0 || len(b.Free()) != buf.BlockBytes {
		t.Fatalf("a new block has %d bytes and room for %d", b.Len(), len(b.Free()))
	}
	b.Add(copy(b.Free(), "abcdef"))
	b.Consume(2)
	if string(b.Filled()) != "cdef" || b.Len() != 4 || len(b.Free()) != buf.BlockBytes-6 {
		t.Errorf("filled %q, room for %d", b.Filled(), len(b.Free()))
	}
	b.Consume(4) // empty: all of it is free again
	if b.Len() != 0 || len(b.Free()) != buf.BlockBytes {
		t.Errorf("an emptied block has %d bytes and room for %d", b.Len(), len(b.Free()))
	}
	b.Add(buf.BlockBytes)
	if len(b.Free()) != 0 || cap(b.Filled()) != buf.BlockBytes {
		t.Errorf("a full block has room for %d and reaches %d bytes", len(b.Free()), cap(b.Filled()))
	}
}

func TestBlockMisuse(t *testing.T) {
	for _, tt := range []struct {
		name string
		fn   func(b *buf.Block)
	}{
		{"add too much", func(b *buf.Block) { b.Add(buf.BlockBytes) }},
		{"add less than nothing", func(b *buf.Block) { b.Add(-1) }},
		{"consume too much", func(b *buf.Block) { b.Consume(2) }},
		{"consume less than nothing", func(b *buf.Block) { b.Consume(-1) }},
		{"release twice", func(b *buf.Block) { b.Release(); b.Release() }},
	} {
		b := get(t, buf.NewPool(heap, nil, false))
		b.Add(1)
		if panics(func() { tt.fn(b) }) == nil {
			t.Errorf("%s: no panic", tt.name)
		}
	}
}

// No two blocks that are out share memory, and each is handed out empty.
func TestPoolKeepsBlocksApart(t *testing.T) {
	p := buf.NewPool(heap, nil, false)
	var out []*buf.Block
	for i := range 50 {
		b := get(t, p)
		if b.Len() != 0 {
			t.Fatalf("block %d comes with %d bytes", i, b.Len())
		}
		for j := range b.Free() {
			b.Free()[j] = byte(i)
		}
		b.Add(buf.BlockBytes)
		out = append(out, b)
		if i%3 == 0 { // one that was used before
			out[len(out)/2].Release()
			out = slices.Delete(out, len(out)/2, len(out)/2+1)
		}
	}
	if p.Lent() != len(out) {
		t.Errorf("%d lent; want %d", p.Lent(), len(out))
	}
	seen := map[byte]bool{}
	for _, b := range out {
		first := b.Filled()[0]
		if seen[first] || !bytes.Equal(b.Filled(), slices.Repeat([]byte{first}, buf.BlockBytes)) {
			t.Errorf("a block's bytes were overwritten")
		}
		seen[first] = true
		b.Release()
	}
	if p.Lent() != 0 {
		t.Errorf("%d lent at the end", p.Lent())
	}
}

// A peak does not stay in memory: of the free blocks only a reserve keeps what
// backs it, and it is the reserve that is lent first.
func TestPoolDropsColdBlocks(t *testing.T) {
	const peak, keep = 100, 32
	var dropped [][]byte
	p := buf.NewPool(heap, func(b []byte) { dropped = append(dropped, b) }, false)
	var out []*buf.Block
	for range peak {
		out = append(out, get(t, p))
	}
	for _, b := range out {
		b.Release()
	}
	if len(dropped) != peak-keep {
		t.Fatalf("%d blocks lost their memory; want %d", len(dropped), peak-keep)
	}
	cold := map[*byte]bool{}
	for _, d := range dropped {
		if len(d) != buf.BlockBytes || cold[&d[0]] {
			t.Errorf("dropped %d bytes (before: %v)", len(d), cold[&d[0]])
		}
		cold[&d[0]] = true
	}
	for i := range keep {
		if b := get(t, p); cold[&b.Free()[0]] {
			t.Errorf("block %d is a cold one; want the reserve first", i)
		}
	}
}

func TestPoolFillsReleased(t *testing.T) {
	p := buf.NewPool(heap, nil, true)
	b := get(t, p)
	b.Add(copy(b.Free(), "secret"))
	stale := b.Filled()
	b.Release()
	if !bytes.Equal(stale, slices.Repeat([]byte{0xdb}, 6)) {
		t.Errorf("a released block reads %q; want 0xdb", stale)
	}
}

func TestPoolWithoutMemory(t *testing.T) {
	refuse := errors.New("out of memory")
	p := buf.NewPool(func(int) ([]byte, error) { return nil, refuse }, nil, false)
	if b, err := p.Get(); b != nil || !errors.Is(err, refuse) {
		t.Errorf("got %v, %v; want the allocator's error", b, err)
	}
	if p.Lent() != 0 {
		t.Errorf("%d lent", p.Lent())
	}
}

// Memory of the kernel reads as zero after it was dropped, and can be used again.
func TestPoolOutsideTheHeap(t *testing.T) {
	var out []*buf.Block
	p := buf.NewPool(sys.MapMemory, sys.DropMemory, false)
	for range 40 {
		b := get(t, p)
		b.Free()[0], b.Free()[buf.BlockBytes-1] = 1, 1
		out = append(out, b)
	}
	for _, b := range out {
		b.Release()
	}
	zero := 0
	for range 40 {
		b := get(t, p)
		if b.Free()[0] == 0 && b.Free()[buf.BlockBytes-1] == 0 {
			zero++
		}
		b.Free()[0] = 2
	}
	if zero != 8 {
		t.Errorf("%d blocks came without their old bytes; want the 8 beyond the reserve", zero)
	}
}
