package splice_test

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/splice"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

func newPool(t *testing.T, cfg splice.Config) *splice.Pool {
	t.Helper()
	p := splice.NewPool(cfg)
	t.Cleanup(p.Close)
	return p
}

// get is for a pipe that must be there.
func get(t *testing.T, p *splice.Pool) *splice.Pipe {
	t.Helper()
	pipe := p.Get()
	if pipe == nil {
		t.Fatal("no pipe")
	}
	return pipe
}

// filled is a pipe that holds text, which came from a socket.
func filled(t *testing.T, p *splice.Pool, text string) *splice.Pipe {
	t.Helper()
	far, near := testkit.TCPPair(t, testkit.TCPOptions{})
	if _, err := far.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	pipe := get(t, p)
	fill(t, pipe, near)
	if pipe.Held() != len(text) {
		t.Fatalf("the pipe holds %d bytes; want %d", pipe.Held(), len(text))
	}
	near.Close()
	far.Close()
	return pipe
}

// fill waits until from has something for the pipe.
func fill(t *testing.T, pipe *splice.Pipe, from *sys.FD) (n int) {
	t.Helper()
	testkit.Eventually(t, testkit.Wait, "the socket has something", func() bool {
		var err error
		if n, err = pipe.Fill(from); err != nil && err != sys.EAGAIN {
			t.Fatal(err)
		}
		return err == nil
	})
	return n
}

// drained is what comes out of the pipe.
func drained(t *testing.T, pipe *splice.Pipe) string {
	t.Helper()
	far, near := testkit.TCPPair(t, testkit.TCPOptions{})
	for pipe.Held() > 0 {
		if _, err := pipe.Drain(near); err != nil {
			t.Fatal(err)
		}
	}
	near.Close()
	text, err := io.ReadAll(far)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPoolBounds(t *testing.T) {
	testkit.NoLeaks(t)
	for _, tt := range []struct {
		name string
		cfg  splice.Config
		want int
	}{
		{"two", splice.Config{Pipes: 2}, 2},
		{"default", splice.Config{}, 64},
		{"none", splice.Config{Pipes: -1}, 0},
		// What a user over the limit of pipe memory gets is not worth a splice.
		{"one page each", splice.Config{PipeBytes: 4096}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPool(t, tt.cfg)
			var out []*splice.Pipe
			for pipe := p.Get(); pipe != nil; pipe = p.Get() {
				out = append(out, pipe)
			}
			if len(out) != tt.want || p.Lent() != tt.want {
				t.Errorf("%d pipes, %d lent; want %d", len(out), p.Lent(), tt.want)
			}
			for _, pipe := range out {
				p.Put(pipe)
			}
			if p.Lent() != 0 {
				t.Errorf("%d lent after all came back", p.Lent())
			}
			if tt.want > 0 {
				pipe := get(t, p)
				p.Put(pipe)
			}
		})
	}
}

// A pipe that holds data is not lent to somebody else.
func TestPutOfFilledPipe(t *testing.T) {
	testkit.NoLeaks(t)
	p := newPool(t, splice.Config{Pipes: 1})
	p.Put(filled(t, p, "somebody's secret"))
	next := get(t, p)
	if next.Held() != 0 {
		t.Errorf("the next pipe holds %d bytes", next.Held())
	}
	far, near := testkit.TCPPair(t, testkit.TCPOptions{})
	if _, err := far.Write([]byte("mine")); err != nil {
		t.Fatal(err)
	}
	fill(t, next, near)
	if got := drained(t, next); got != "mine" {
		t.Errorf("got %q out of the next pipe; want what was put in", got)
	}
	p.Put(next)
}

func TestFillOfFilledPipe(t *testing.T) {
	testkit.NoLeaks(t)
	p := newPool(t, splice.Config{})
	pipe := filled(t, p, "x")
	_, near := testkit.TCPPair(t, testkit.TCPOptions{})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a filled pipe was filled again: EAGAIN would be ambiguous")
			}
		}()
		pipe.Fill(near)
	}()
	p.Put(pipe)
}

// Bytes in a pipe travel with it, and are taken in by a pool that is used up:
// but the pool is no bigger afterwards.
func TestFreezeThaw(t *testing.T) {
	testkit.NoLeaks(t)
	from := newPool(t, splice.Config{Pipes: 1})
	to := newPool(t, splice.Config{Pipes: 1})
	own := get(t, to)
	r, w, held := from.Freeze(filled(t, from, "in flight"))
	if from.Lent() != 0 || held != 9 {
		t.Errorf("%d lent, %d bytes in flight; want 0, 9", from.Lent(), held)
	}
	pipe, err := to.Thaw(r, w, held)
	if err != nil || r.Valid() || w.Valid() {
		t.Fatalf("thaw: %v; descriptors left: %v, %v", err, r.Valid(), w.Valid())
	}
	if to.Lent() != 2 || to.Get() != nil {
		t.Errorf("%d lent and more to be had; want 2 and none", to.Lent())
	}
	if got := drained(t, pipe); got != "in flight" {
		t.Errorf("got %q; want what was in flight", got)
	}
	to.Put(pipe)
	to.Put(own)
	own = get(t, to)
	if extra := to.Get(); extra != nil {
		t.Error("the pool lends two pipes; its bound is one")
		to.Put(extra)
	}
	to.Put(own)
}

func TestThawOfNoPipe(t *testing.T) {
	testkit.NoLeaks(t)
	p := newPool(t, splice.Config{})
	_, a := testkit.TCPPair(t, testkit.TCPOptions{})
	_, b := testkit.TCPPair(t, testkit.TCPOptions{})
	if pipe, err := p.Thaw(a, b, 1); err == nil || pipe != nil || a.Valid() || b.Valid() || p.Lent() != 0 {
		t.Errorf("sockets as a pipe: %v, %v, open: %v, %v, lent: %d; want an error and all closed",
			pipe, err, a.Valid(), b.Valid(), p.Lent())
	}
	if pipe, err := p.Thaw(new(sys.FD), new(sys.FD), 1); err == nil || pipe != nil {
		t.Errorf("no descriptors: %v, %v; want an error", pipe, err)
	}
	for _, held := range []int{0, 4, 6, 1 << 20} {
		r, w, _ := p.Freeze(filled(t, p, "hello"))
		if pipe, err := p.Thaw(r, w, held); err == nil || pipe != nil || r.Valid() || w.Valid() || p.Lent() != 0 {
			t.Errorf("a pipe with 5 bytes as one with %d: %v, %v; want an error", held, pipe, err)
		}
	}
	r, w, held := p.Freeze(filled(t, p, "hello"))
	w.Close()
	if pipe, err := p.Thaw(r, w, held); err == nil || pipe != nil || r.Valid() {
		t.Errorf("a pipe without its write end: %v, %v; want an error", pipe, err)
	}
}

// A reader that is slow and small writes and reads in small pieces: nothing is
// lost or reordered, and EAGAIN is told apart on both sides.
func TestManyBytes(t *testing.T) {
	testkit.NoLeaks(t)
	const total = 2 << 20
	p := newPool(t, splice.Config{})
	source, in := testkit.TCPPair(t, testkit.TCPOptions{})
	sink, out := testkit.TCPPair(t, testkit.TCPOptions{FarReadBuffer: 4096, NearBuffers: 32 << 10})
	sums := make(chan [sha256.Size]byte, 2)
	go send(source, total, sums)
	go receive(sink, sums)

	pipe := get(t, p)
	moved := 0
	testkit.Eventually(t, testkit.Wait, "all bytes are moved", func() bool {
		for {
			if pipe.Held() == 0 {
				n, err := pipe.Fill(in)
				if err == sys.EAGAIN {
					return false
				}
				if err != nil {
					t.Fatal(err)
				}
				if n == 0 {
					return true
				}
			}
			n, err := pipe.Drain(out)
			moved += n
			if err == sys.EAGAIN {
				return false
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	p.Put(pipe)
	out.Close()
	a := testkit.Receive(t, testkit.Wait, "first hash", sums)
	b := testkit.Receive(t, testkit.Wait, "second hash", sums)
	if a != b || moved != total {
		t.Errorf("moved %d of %d bytes, hashes equal: %v", moved, total, a == b)
	}
}

func send(c *net.TCPConn, total int, sums chan<- [sha256.Size]byte) {
	defer c.Close()
	r := rand.NewChaCha8([32]byte{})
	data := make([]byte, total)
	r.Read(data)
	sums <- sha256.Sum256(data)
	for b := bytes.NewReader(data); b.Len() > 0; { // pieces that don't fit pages
		if _, err := io.CopyN(c, b, min(int64(1+r.Uint64()%9000), int64(b.Len()))); err != nil {
			return
		}
	}
}

func receive(c *net.TCPConn, sums chan<- [sha256.Size]byte) {
	h := sha256.New()
	io.CopyBuffer(struct{ io.Writer }{h}, struct{ io.Reader }{c}, make([]byte, 1500))
	sums <- [sha256.Size]byte(h.Sum(nil))
}
