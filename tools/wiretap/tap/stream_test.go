package tap

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestStream hands segments over in any order, some twice, some with another cut,
// around the place where sequence numbers wrap.
func TestStream(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	want := make([]byte, 3000)
	for i := range want {
		want[i] = byte(rng.Uint32())
	}
	for _, first := range []uint32{1, 0xffffff00, 0x7fffff00} {
		for range 50 {
			type seg struct{ at, n int }
			var segs []seg
			for at := 0; at < len(want); {
				n := min(1+rng.IntN(200), len(want)-at)
				segs = append(segs, seg{at, n})
				if back := rng.IntN(100); rng.IntN(4) == 0 && at >= back {
					segs = append(segs, seg{at - back, n + back})
				}
				at += n
			}
			for i := range segs { // out of order, but not by much
				if j := i + rng.IntN(4); j < len(segs) {
					segs[i], segs[j] = segs[j], segs[i]
				}
			}
			var got []byte
			edges := 0
			s := &stream{
				take: func(b []byte, _ int) { got = append(got, b...) },
				edge: func(before, behind []byte, _ int) {
					edges++
					if !bytes.HasSuffix(got, before) || !bytes.HasPrefix(want[len(got):], behind) {
						t.Fatalf("the border at %d is not there", len(got))
					}
				},
			}
			s.begin(first)
			for i, g := range segs {
				s.add(first+uint32(g.at), want[g.at:g.at+g.n], i)
			}
			if !bytes.Equal(got, want) || s.gap() || edges == 0 {
				t.Fatalf("from %#x: %d bytes, equal %t, gap %t, %d borders", first, len(got), bytes.Equal(got, want), s.gap(), edges)
			}
		}
	}
}

func TestStreamGap(t *testing.T) {
	s := &stream{take: func([]byte, int) {}, edge: func([]byte, []byte, int) {}}
	s.begin(10)
	s.add(10, []byte("ab"), 0)
	s.add(13, []byte("d"), 1)
	if !s.gap() || s.next != 2 {
		t.Errorf("gap %t behind %d; want true, 2", s.gap(), s.next)
	}
}
