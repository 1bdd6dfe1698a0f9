// Package buf lends fixed-size blocks from a pool that belongs to one loop.
//
// Blocks live outside the heap, so that the garbage collector never looks at
// them; under the race detector, which is blind there, the loop's constructor
// passes an Allocator that uses the heap. Owns: the memory, for the life of the
// process; what backs free blocks beyond a reserve goes back to the kernel.
// Threads: everything on the pool's loop.
package buf

import "fmt"

// BlockBytes is the size of a block.
const BlockBytes = 64 << 10

const (
	arenaBlocks = 16 // blocks that are mapped at once
	keepBlocks  = 32 // free blocks that keep their memory
)

// An Allocator gets zeroed, page-aligned memory that lives as long as the process.
type Allocator func(size int) ([]byte, error)

// A Pool is a free list of blocks.
type Pool struct {
	alloc Allocator
	drop  func([]byte) // nil: free blocks keep their memory
	fill  bool         // overwrite released blocks, to show who still reads them

	warm, cold []*Block // free; the cold ones have no memory behind them
	lent       int
}

// NewPool makes an empty pool. drop gives back what backs a free block and may
// be nil; fill overwrites released blocks with 0xdb.
func NewPool(alloc Allocator, drop func([]byte), fill bool) *Pool {
	return &Pool{alloc: alloc, drop: drop, fill: fill}
}

// A Block is a buffer: the filled part is what was Added and not yet Consumed.
// Slices from Filled and Free are borrowed: valid until the next call on the
// same Block. It has one owner, who ends it with Release.
type Block struct {
	data []byte // outside the heap
	r, w int    // the filled part is data[r:w]
	pool *Pool  // nil once released
}

// Get lends an empty block, or says that the kernel has no memory.
func (p *Pool) Get() (*Block, error) {
	if len(p.warm)+len(p.cold) == 0 {
		arena, err := p.alloc(arenaBlocks * BlockBytes)
		if err != nil {
			return nil, fmt.Errorf("map %d bytes for blocks: %w", arenaBlocks*BlockBytes, err)
		}
		blocks := make([]Block, arenaBlocks)
		for i := range blocks {
			blocks[i].data = arena[i*BlockBytes : (i+1)*BlockBytes : (i+1)*BlockBytes]
			p.cold = append(p.cold, &blocks[i])
		}
	}
	from := &p.warm
	if len(p.warm) == 0 {
		from = &p.cold
	}
	last := len(*from) - 1
	b := (*from)[last]
	*from = (*from)[:last]
	b.pool, b.r, b.w = p, 0, 0
	p.lent++
	return b, nil
}

// Lent is how many blocks are out.
func (p *Pool) Lent() int { return p.lent }

// Filled is the part that was Added and not yet Consumed.
func (b *Block) Filled() []byte { return b.data[b.r:b.w] }

// Free is the room behind the filled part.
func (b *Block) Free() []byte { return b.data[b.w:] }

// Len is how many bytes are filled.
func (b *Block) Len() int { return b.w - b.r }

// Add says that the first n bytes of Free are filled now.
func (b *Block) Add(n int) {
	if n < 0 || n > len(b.data)-b.w {
		panic("buf: more added than there is room")
	}
	b.w += n
}

// Consume says that the first n bytes of Filled are done with.
func (b *Block) Consume(n int) {
	if n < 0 || n > b.w-b.r {
		panic("buf: more consumed than was filled")
	}
	if b.r += n; b.r == b.w {
		b.r, b.w = 0, 0
	}
}

// Release gives b back. Two releases mean two owners, so the second panics.
func (b *Block) Release() {
	p := b.pool
	if p == nil {
		panic("buf: released twice")
	}
	b.pool, b.r, b.w = nil, 0, 0
	p.lent--
	if p.fill {
		for i := range b.data {
			b.data[i] = 0xdb
		}
	}
	if p.drop == nil || len(p.warm) < keepBlocks {
		p.warm = append(p.warm, b)
		return
	}
	p.drop(b.data)
	p.cold = append(p.cold, b)
}
