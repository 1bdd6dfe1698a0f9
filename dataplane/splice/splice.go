// Package splice moves bytes between sockets inside the kernel, through a
// bounded pool of pipes.
//
// Data enters a Pipe by Fill and leaves by Drain. Owns: the pipes; one that is
// lent belongs to one direction of one relay, which gives it back by Put, empty
// or not. Threads: everything on the pool's loop.
package splice

import (
	"fmt"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// A Pipe holds at most Size bytes on their way from one socket to another.
type Pipe struct {
	r, w sys.FD
	size int // what the kernel gave; in slots of a page, so less in small packets
	held int
}

// Config sets the sizes of a pool.
type Config struct {
	Pipes     int // pipes that may exist at once; 0 means 64, negative none
	PipeBytes int // asked for each; 0 means 512 KiB
}

// A Pool lends pipes.
type Pool struct {
	cfg  Config
	free []*Pipe
	lent int
}

// NewPool makes an empty pool.
func NewPool(cfg Config) *Pool {
	if cfg.Pipes == 0 {
		cfg.Pipes = 64
	}
	if cfg.PipeBytes == 0 {
		cfg.PipeBytes = 512 << 10
	}
	return &Pool{cfg: cfg}
}

// minPipeBytes is the least room that makes splice worth while. A user over
// the soft limit of pipe memory gets a page or two.
const minPipeBytes = 64 << 10

// Get lends an empty pipe. nil means that none is to be had: the caller copies.
func (p *Pool) Get() *Pipe {
	if n := len(p.free); n > 0 {
		pipe := p.free[n-1]
		p.free = p.free[:n-1]
		p.lent++
		return pipe
	}
	if p.lent >= p.cfg.Pipes {
		return nil
	}
	pipe := new(Pipe)
	size, err := sys.Pipe(&pipe.r, &pipe.w, p.cfg.PipeBytes)
	if err != nil {
		return nil
	}
	if size < minPipeBytes {
		pipe.close()
		return nil
	}
	pipe.size = size
	p.lent++
	return pipe
}

// Lent is how many pipes are out.
func (p *Pool) Lent() int { return p.lent }

// Put takes pipe back: kept when it is empty and within the bound, which a thawed
// one may have broken; else closed.
func (p *Pool) Put(pipe *Pipe) {
	p.lent--
	if pipe.held > 0 || len(p.free)+p.lent >= p.cfg.Pipes {
		pipe.close()
		return
	}
	p.free = append(p.free, pipe)
}

// Close closes the pipes that are not lent.
func (p *Pool) Close() {
	for _, pipe := range p.free {
		pipe.close()
	}
	p.free = nil
}

func (p *Pipe) close() {
	_ = p.r.Close()
	_ = p.w.Close()
}

// Held is how many bytes are in the pipe.
func (p *Pipe) Held() int { return p.held }

// Fill moves what from has into the pipe, which must be empty: so EAGAIN means
// that from is empty, never that the pipe is full. 0 means FIN.
func (p *Pipe) Fill(from *sys.FD) (int, error) {
	if p.held != 0 {
		panic("splice: Fill of a pipe that holds data")
	}
	n, err := sys.Splice(from, &p.w, p.size)
	p.held = n
	return n, err
}

// Drain moves what the pipe holds to to. EAGAIN means that to is full.
func (p *Pipe) Drain(to *sys.FD) (int, error) {
	n, err := sys.Splice(&p.r, to, p.held)
	if n == 0 && err == nil { // nothing in it, and nobody who could write
		return 0, sys.EBADF
	}
	p.held -= n
	return n, err
}

// Freeze takes the pipe apart: its read and its write descriptor and the bytes
// between them. The pipe leaves the pool.
func (p *Pool) Freeze(pipe *Pipe) (r, w *sys.FD, held int) {
	p.lent--
	r, w = new(sys.FD), new(sys.FD)
	pipe.r.MoveTo(r)
	pipe.w.MoveTo(w)
	return r, w, pipe.held
}

// Thaw takes r and w, the ends of a pipe that holds held bytes, and lends it
// beyond the bound: data in flight is never refused. What is no such pipe is: its
// flow would wait for the missing bytes for ever.
func (p *Pool) Thaw(r, w *sys.FD, held int) (_ *Pipe, err error) {
	pipe := &Pipe{held: held}
	r.MoveTo(&pipe.r)
	w.MoveTo(&pipe.w)
	defer func() {
		if err != nil {
			pipe.close()
		}
	}()
	if pipe.size, err = sys.PipeSize(&pipe.r); err != nil {
		return nil, fmt.Errorf("size of a handed over pipe: %w", err)
	}
	if _, err := sys.PipeSize(&pipe.w); err != nil {
		return nil, fmt.Errorf("write end of a handed over pipe: %w", err)
	}
	has, err := sys.PipeBytes(&pipe.r)
	if err == nil && has != held {
		err = sys.EINVAL
	}
	if err != nil {
		return nil, fmt.Errorf("a handed over pipe holds %d bytes, not %d: %w", has, held, err)
	}
	p.lent++
	return pipe, nil
}
