package main

import (
	"slices"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// narrow writes the 256-bit variant: a group is eight vectors of two blocks.
//
// AVX2 has 16 registers and no masks, so round keys come from memory, what is
// hashed is read back from memory, the last partial vector goes through the
// stack, and a product is added by an xor of its own.
type narrow struct {
	kernel

	state [8]reg.VecPhysical // AES of this group; in the last one ciphertext
	even  reg.VecPhysical    // a pair of vectors to be hashed
	odd   reg.VecPhysical
	tmp   reg.VecPhysical
	key   reg.VecPhysical // the round key at hand
	lo    reg.VecPhysical // sums of the products that were not reduced yet
	hi    reg.VecPhysical
	mid   reg.VecPhysical
	hash  reg.VecPhysical // running hash, byte-swapped, in lane 0; zero above

	// On the stack, and overwritten before the function returns.
	base operand.Mem // nonce and counter xor round key 0
	mask operand.Mem // AES of the block that hides the tag
	part operand.Mem // 32 bytes for a vector that is not whole

	ones operand.Mem // 32 bytes of ones, then 32 of zeros
}

// emitNarrow writes one function of the 256-bit variant.
func emitNarrow(ctx *build.Context, ones operand.Mem, rounds int, dir direction) {
	n := &narrow{
		kernel: newKernel(ctx, rounds, dir),
		state:  [8]reg.VecPhysical{reg.Y0, reg.Y1, reg.Y2, reg.Y3, reg.Y4, reg.Y5, reg.Y6, reg.Y7},
		even:   reg.Y8, odd: reg.Y9, tmp: reg.Y10, key: reg.Y11,
		lo: reg.Y12, hi: reg.Y13, mid: reg.Y14, hash: reg.Y15,
		ones: ones,
	}
	n.start("Narrow")
	frame := n.AllocLocal(64)
	n.base, n.mask, n.part = frame, frame.Offset(16), frame.Offset(32)
	n.prologue()
	if dir == sealing {
		n.sealBody()
	} else {
		n.openBody()
	}
	n.partial()
	n.finalHash()
	n.epilogue()
}

// emitOnes writes the table that cuts a vector short.
func emitOnes(ctx *build.Context) operand.Mem {
	ones := ctx.StaticGlobal("ones")
	ctx.DataAttributes(attr.RODATA | attr.NOPTR)
	for i := range 8 {
		v := ^uint64(0)
		if i >= 4 {
			v = 0
		}
		ctx.AddDatum(8*i, operand.U64(v))
	}
	return ones
}

// prologue hashes the additional data and computes the mask of the tag.
func (n *narrow) prologue() {
	n.arguments()
	t0, t1, t2 := n.tmp.AsX(), n.even.AsX(), n.odd.AsX()
	n.VMOVQ(at(n.scratch, 0), t0)
	n.VPINSRD(imm(2), at(n.scratch, 8), t0, t0)
	n.VPXOR(at(n.block, offRoundKeys), t0, t0)
	n.VMOVDQU(t0, n.base)

	n.Comment("The block with counter 1 hides the tag.")
	n.VPXOR(at(n.block, offCounters+240), t0, t0)
	for r := 1; r < n.rounds; r++ {
		n.VAESENC(at(n.block, offRoundKeys+16*r), t0, t0)
	}
	n.VAESENCLAST(at(n.block, offRoundKeys+16*n.rounds), t0, t0)
	n.VMOVDQU(t0, n.mask)

	n.Comment("Additional data, one block at a time: a record has 5 bytes of it.")
	hash := n.hash.AsX()
	n.VPXOR(hash, hash, hash)
	n.TESTQ(n.adLeft, n.adLeft)
	n.JZ(operand.LabelRef("adDone"))
	n.Label("adBlock")
	n.CMPQ(n.adLeft, imm(16))
	n.JB(operand.LabelRef("adPart"))
	n.VMOVDQU(at(n.ad, 0), t0)
	n.ADDQ(imm(16), n.ad)
	n.SUBQ(imm(16), n.adLeft)
	n.JMP(operand.LabelRef("adHash"))
	n.Label("adPart")
	n.VPXOR(t0, t0, t0)
	n.VMOVDQU(t0, n.part)
	n.LEAQ(n.part, n.ctr)
	n.copyBytes("ad", n.ad, n.ctr, n.adLeft, 8)
	n.VMOVDQU(n.part, t0)
	n.XORL(n.adLeft.As32(), n.adLeft.As32())
	n.Label("adHash")
	n.VPSHUFB(at(n.block, offSwap), t0, t0)
	n.VPXOR(t0, hash, hash)
	multiply(n.Context, hash, at(n.block, offPowers+lastPower), at(n.block, offPoly),
		[2]reg.Register{t0, t1}, t2)
	n.TESTQ(n.adLeft, n.adLeft)
	n.JNZ(operand.LabelRef("adBlock"))
	n.Label("adDone")
	n.XORL(n.ctr.As32(), n.ctr.As32())
	n.findTag()
}

// sealBody encrypts a group while it hashes the one before.
func (n *narrow) sealBody() {
	emit(n.encrypt())
	n.CMPQ(n.left, operand.U32(groupBytes))
	n.JB(operand.LabelRef("short"))
	emit(n.finish())

	n.Label("loop")
	n.CMPQ(n.left, operand.U32(2*groupBytes))
	n.JB(operand.LabelRef("tail"))
	weave(n.encrypt(), n.groupHash(n.dst, -groupBytes, n.block, 16*(powers-32), fresh, carry), 1)
	emit(n.finish())
	weave(n.encrypt(), append(n.groupHash(n.dst, -groupBytes, n.block, 16*(powers-16)), n.reduce()...), 1)
	emit(n.finish())
	n.JMP(operand.LabelRef("loop"))

	n.Label("tail")
	n.tailSums(16)
	n.CMPQ(n.left, operand.U32(groupBytes))
	n.JB(operand.LabelRef("last"))
	weave(n.encrypt(), n.tailHash(n.dst, -groupBytes), 1)
	emit(n.finish())
	n.Label("last")
	n.jumpIfNothingLeft("waiting")
	weave(n.encrypt(), n.tailHash(n.dst, -groupBytes), 1)
	n.JMP(operand.LabelRef("partial"))
	n.Label("waiting")
	emit(n.tailHash(n.dst, -groupBytes))
	n.JMP(operand.LabelRef("hash0"))

	n.Label("short")
	n.tailSums(0)
	n.jumpIfNothingLeft("none")
}

// openBody decrypts and hashes the same group.
func (n *narrow) openBody() {
	n.Label("loop")
	n.CMPQ(n.left, operand.U32(2*groupBytes))
	n.JB(operand.LabelRef("tail"))
	weave(n.encrypt(), n.groupHash(n.src, 0, n.block, 16*(powers-32), fresh, carry), 1)
	emit(n.finish())
	weave(n.encrypt(), append(n.groupHash(n.src, 0, n.block, 16*(powers-16)), n.reduce()...), 1)
	emit(n.finish())
	n.JMP(operand.LabelRef("loop"))

	n.Label("tail")
	n.tailSums(0)
	n.CMPQ(n.left, operand.U32(groupBytes))
	n.JB(operand.LabelRef("last"))
	weave(n.encrypt(), n.tailHash(n.src, 0), 1)
	emit(n.finish())
	n.Label("last")
	n.jumpIfNothingLeft("none")
	emit(n.encrypt())
}

// encrypt is a group's AES up to the round before the last. It uses no register
// that the hash uses.
func (n *narrow) encrypt() stream {
	s := stream{func() { n.VBROADCASTI128(n.base, n.key) }}
	for i := range 7 {
		s = append(s, func() { n.VPXOR(at(n.block, offCounters+32*i), n.key, n.state[i]) })
	}
	// A record's data starts at counter 2, so the last two blocks of a group
	// have the next value of the counter's upper 28 bits.
	c, key := n.scratch.As32(), n.key.AsX()
	s = append(s,
		func() { n.ADDL(imm(16), n.ctr.As32()) },
		func() { n.MOVL(n.ctr.As32(), c) },
		func() { n.BSWAPL(c) },
		func() { n.XORL(at(n.block, offRoundKeys+12), c) },
		func() { n.VPINSRD(imm(3), c, key, key) },
		func() { n.VMOVDQU(key, n.base) },
		func() { n.VINSERTI128(imm(1), key, n.key, n.key) },
		func() { n.VPXOR(at(n.block, offCounters+224), n.key, n.state[7]) },
	)
	for r := 1; r < n.rounds; r++ {
		s = append(s, n.loadKey(r))
		for _, x := range n.state {
			s = append(s, func() { n.VAESENC(n.key, x, x) })
		}
	}
	return s
}

func (n *narrow) loadKey(r int) func() {
	return func() { n.VBROADCASTI128(at(n.block, offRoundKeys+16*r), n.key) }
}

// finish does the last round of eight whole vectors, stores them and moves on.
func (n *narrow) finish() stream {
	s := stream{n.loadKey(n.rounds)}
	for i, x := range n.state {
		s = append(s,
			func() { n.VPXOR(at(n.src, 32*i), n.key, n.tmp) },
			func() { n.VAESENCLAST(n.tmp, x, x) },
			func() { n.VMOVDQU(x, at(n.dst, 32*i)) })
	}
	return append(s, n.advance()...)
}

// How groupHash begins: fresh sums or not, and with the running hash or not.
type hashOption int

const (
	fresh hashOption = iota
	carry
)

// groupHash adds the products of the group in memory at data+dataOff to the
// sums. off is where the power of the group's first block lies after base, in
// powers and in halves alike. The pair that the running hash is added to comes
// last: the reduction that made it has had time.
func (n *narrow) groupHash(data reg.Register, dataOff int, base reg.Register, off int, options ...hashOption) stream {
	var s stream
	for i := 6; i >= 0; i -= 2 {
		s = append(s,
			func() { n.VMOVDQU(at(data, dataOff+32*i), n.even) },
			func() { n.VPSHUFB(at(n.block, offSwap), n.even, n.even) },
			func() { n.VMOVDQU(at(data, dataOff+32*i+32), n.odd) },
			func() { n.VPSHUFB(at(n.block, offSwap), n.odd, n.odd) })
		if i == 0 && slices.Contains(options, carry) {
			s = append(s, func() { n.VPXOR(n.hash, n.even, n.even) })
		}
		s = append(s, n.pairHash(i, base, off, i == 6 && slices.Contains(options, fresh))...)
	}
	return s
}

// pairHash multiplies the pair in even and odd by Karatsuba's way. The halves
// of both fit into one vector, as do those of their powers.
func (n *narrow) pairHash(i int, base reg.Register, off int, fresh bool) stream {
	p0 := at(base, offPowers+off+32*i)
	p1 := at(base, offPowers+off+32*i+32)
	q := at(base, offHalves+off+32*i)
	var s stream
	add := func(halves uint8, power operand.Mem, x, sum reg.VecPhysical, fresh bool) {
		if fresh {
			s = append(s, func() { n.VPCLMULQDQ(imm(halves), power, x, sum) })
			return
		}
		s = append(s,
			func() { n.VPCLMULQDQ(imm(halves), power, x, n.tmp) },
			func() { n.VPXOR(n.tmp, sum, sum) })
	}
	add(0x00, p0, n.even, n.lo, fresh)
	add(0x11, p0, n.even, n.hi, fresh)
	add(0x00, p1, n.odd, n.lo, false)
	add(0x11, p1, n.odd, n.hi, false)
	s = append(s,
		func() { n.VPUNPCKLQDQ(n.odd, n.even, n.tmp) },
		func() { n.VPUNPCKHQDQ(n.odd, n.even, n.even) },
		func() { n.VPXOR(n.tmp, n.even, n.even) })
	add(0x00, q, n.even, n.mid, fresh)
	add(0x11, q, n.even, n.mid, false)
	return s
}

// reduce turns the sums into the running hash: mid is made whole, two steps
// fold the low 64 bits of what is left upwards, and the lanes are added.
func (n *narrow) reduce() stream {
	s := stream{
		func() { n.VPXOR(n.lo, n.mid, n.mid) },
		func() { n.VPXOR(n.hi, n.mid, n.mid) },
	}
	for _, step := range [][2]reg.VecPhysical{{n.lo, n.mid}, {n.mid, n.hi}} {
		from, to := step[0], step[1]
		s = append(s,
			func() { n.VPCLMULQDQ(imm(0x00), at(n.block, offPoly), from, n.tmp) },
			func() { n.VPSHUFD(imm(0x4e), from, from) },
			func() { n.VPXOR(from, to, to) },
			func() { n.VPXOR(n.tmp, to, to) })
	}
	return append(s,
		func() { n.VEXTRACTI128(imm(1), n.hi, n.hash.AsX()) },
		func() { n.VPXOR(n.hi.AsX(), n.hash.AsX(), n.hash.AsX()) })
}
