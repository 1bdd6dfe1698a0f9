package main

import "github.com/mmcloughlin/avo/reg"

// groupHash adds the products of a group to the sums; with fresh it starts
// them anew. off is where the power of the group's first block lies after base,
// in powers and in halves alike. The vector that the running hash is added to
// comes last: the reduction that made it has had time.
func (w *wide) groupHash(base reg.Register, off int, fresh bool) stream {
	s := w.pairHash(2, base, off, fresh)
	if fresh {
		s = append(s, func() { w.VPXORQ(w.hash, w.data[0], w.data[0]) })
	}
	return append(s, w.pairHash(0, base, off, false)...)
}

// pairHash multiplies two vectors by Karatsuba's way. The halves of both fit
// into one vector, as do those of their powers.
func (w *wide) pairHash(i int, base reg.Register, off int, fresh bool) stream {
	even, odd := w.data[i], w.data[i+1]
	t0, t1, t2 := w.tmp[0], w.tmp[1], w.tmp[2]
	p0 := at(base, offPowers+off+64*i)
	p1 := at(base, offPowers+off+64*i+64)
	q := at(base, offHalves+off+64*i)
	add := func(sum reg.Register) {
		if fresh {
			w.VPXORQ(t1, t2, sum)
		} else {
			w.VPTERNLOGQ(imm(0x96), t1, t2, sum)
		}
	}
	return stream{
		func() { w.VPUNPCKLQDQ(odd, even, t0) },
		func() { w.VPUNPCKHQDQ(odd, even, t1) },
		func() { w.VPXORQ(t1, t0, t0) },
		func() { w.VPCLMULQDQ(imm(0x00), p0, even, t1) },
		func() { w.VPCLMULQDQ(imm(0x00), p1, odd, t2) },
		func() { add(w.lo) },
		func() { w.VPCLMULQDQ(imm(0x11), p0, even, t1) },
		func() { w.VPCLMULQDQ(imm(0x11), p1, odd, t2) },
		func() { add(w.hi) },
		func() { w.VPCLMULQDQ(imm(0x00), q, t0, t1) },
		func() { w.VPCLMULQDQ(imm(0x11), q, t0, t2) },
		func() { add(w.mid) },
	}
}

// reduce turns the sums into the running hash: mid is made whole, two steps
// fold the low 64 bits of what is left upwards, and the lanes are added.
func (w *wide) reduce() stream {
	t := w.tmp[0]
	step := func(from, to reg.VecPhysical) stream {
		return stream{
			func() { w.VPCLMULQDQ(imm(0x00), at(w.block, offPoly), from, t) },
			func() { w.VPSHUFD(imm(0x4e), from, from) },
			func() { w.VPTERNLOGQ(imm(0x96), t, from, to) },
		}
	}
	s := stream{func() { w.VPTERNLOGQ(imm(0x96), w.lo, w.hi, w.mid) }}
	s = append(s, step(w.lo, w.mid)...)
	s = append(s, step(w.mid, w.hi)...)
	return append(s,
		func() { w.VEXTRACTI64X4(imm(1), w.hi, t.AsY()) },
		func() { w.VPXOR(t.AsY(), w.hi.AsY(), t.AsY()) },
		func() { w.VEXTRACTI128(imm(1), t.AsY(), w.hash.AsX()) },
		func() { w.VPXOR(t.AsX(), w.hash.AsX(), w.hash.AsX()) },
	)
}
