package main

import (
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// wide writes the 512-bit variant: a group is four vectors of four blocks.
//
// Roles of the registers. AES-256 uses all 32. Instructions that reach only
// the lower 16 (VPXOR, VPTEST, VPINSRD) decide who sits there.
type wide struct {
	kernel

	state [4]reg.VecPhysical // AES of this group
	data  [4]reg.VecPhysical // byte-swapped ciphertext that waits to be hashed
	lo    reg.VecPhysical    // sums of the products that were not reduced yet
	hi    reg.VecPhysical
	mid   reg.VecPhysical
	tmp   [3]reg.VecPhysical
	hash  reg.VecPhysical // running hash, byte-swapped, in lane 0; zero above
	mask  reg.VecPhysical // AES of the block that hides the tag, in lane 0
	base  reg.VecPhysical // nonce and the group's counter, xor round key 0
	swap  reg.VecPhysical
	keys  [15]reg.VecPhysical // round keys from 1 on, in each lane

	upper, lower, loadMask, storeMask, typeMask reg.OpmaskPhysical
}

func newWide(ctx *build.Context, rounds int, dir direction) *wide {
	z := func(n uint) reg.VecPhysical {
		return [...]reg.VecPhysical{
			reg.Z0, reg.Z1, reg.Z2, reg.Z3, reg.Z4, reg.Z5, reg.Z6, reg.Z7,
			reg.Z8, reg.Z9, reg.Z10, reg.Z11, reg.Z12, reg.Z13, reg.Z14, reg.Z15,
			reg.Z16, reg.Z17, reg.Z18, reg.Z19, reg.Z20, reg.Z21, reg.Z22, reg.Z23,
			reg.Z24, reg.Z25, reg.Z26, reg.Z27, reg.Z28, reg.Z29, reg.Z30, reg.Z31,
		}[n]
	}
	w := &wide{
		kernel: newKernel(ctx, rounds, dir),
		lo:     z(8), hi: z(9), mid: z(10), hash: z(14), mask: z(15), base: z(16), swap: z(17),
		upper: reg.K1, lower: reg.K2, loadMask: reg.K3, storeMask: reg.K4, typeMask: reg.K5,
	}
	for i := range uint(4) {
		w.state[i], w.data[i] = z(i), z(4+i)
	}
	for i := range uint(3) {
		w.tmp[i] = z(11 + i)
	}
	for r := 1; r <= rounds; r++ {
		w.keys[r] = z(17 + uint(r))
	}
	return w
}

// emitWide writes one function of the 512-bit variant.
func emitWide(ctx *build.Context, rounds int, dir direction) {
	w := newWide(ctx, rounds, dir)
	w.start("Wide")
	w.prologue()
	if dir == sealing {
		w.sealBody()
	} else {
		w.openBody()
	}
	w.partial()
	w.finalHash()
	w.epilogue()
}

// prologue loads the arguments and the keys, hashes the additional data and
// computes the mask of the tag.
func (w *wide) prologue() {
	w.arguments()

	t0 := w.tmp[0].AsX()
	w.Comment("Nonce and counter 0, xor round key 0, in each lane.")
	w.VMOVQ(at(w.scratch, 0), t0)
	w.VPINSRD(imm(2), at(w.scratch, 8), t0, t0)
	w.VPXOR(at(w.block, offRoundKeys), t0, t0)
	w.VSHUFI64X2(imm(0), w.tmp[0], w.tmp[0], w.base)
	w.XORL(w.ctr.As32(), w.ctr.As32())
	w.MOVL(operand.U32(0x8800), w.scratch.As32())
	w.KMOVW(w.scratch.As32(), w.upper)
	w.MOVL(operand.U32(0x0088), w.scratch.As32())
	w.KMOVW(w.scratch.As32(), w.lower)
	for r := 1; r <= w.rounds; r++ {
		w.VBROADCASTI32X4(at(w.block, offRoundKeys+16*r), w.keys[r])
	}
	w.VBROADCASTI32X4(at(w.block, offSwap), w.swap)

	w.Comment("The block with counter 1 hides the tag.")
	w.VPXOR(at(w.block, offCounters+240), t0, w.mask.AsX())
	for r := 1; r < w.rounds; r++ {
		w.VAESENC(at(w.block, offRoundKeys+16*r), w.mask.AsX(), w.mask.AsX())
	}
	w.VAESENCLAST(at(w.block, offRoundKeys+16*w.rounds), w.mask.AsX(), w.mask.AsX())

	if w.dir == opening {
		w.additional()
	}
}

func (w *wide) additional() {
	t0, t1, t2 := w.tmp[0].AsX(), w.tmp[1].AsX(), w.tmp[2].AsX()
	w.Comment("Additional data, one block at a time: a record has 5 bytes of it.")
	hash := w.hash.AsX()
	w.VPXOR(hash, hash, hash)
	w.TESTQ(w.adLeft, w.adLeft)
	w.JZ(operand.LabelRef("adDone"))
	w.Label("adBlock")
	w.CMPQ(w.adLeft, imm(16))
	w.JB(operand.LabelRef("adPart"))
	w.VMOVDQU(at(w.ad, 0), t0)
	w.ADDQ(imm(16), w.ad)
	w.SUBQ(imm(16), w.adLeft)
	w.JMP(operand.LabelRef("adHash"))
	w.Label("adPart")
	w.MOVL(operand.U32(0xffff), w.scratch.As32())
	w.BZHIL(w.adLeft.As32(), w.scratch.As32(), w.scratch.As32())
	w.KMOVW(w.scratch.As32(), w.loadMask)
	w.VMOVDQU8_Z(at(w.ad, 0), w.loadMask, t0)
	w.XORL(w.adLeft.As32(), w.adLeft.As32())
	w.Label("adHash")
	w.VPSHUFB(at(w.block, offSwap), t0, t0)
	w.VPXOR(t0, hash, hash)
	multiply(w.Context, hash, at(w.block, offPowers+lastPower), at(w.block, offPoly),
		[2]reg.Register{t0, t1}, t2)
	w.TESTQ(w.adLeft, w.adLeft)
	w.JNZ(operand.LabelRef("adBlock"))
	w.Label("adDone")

	w.findTag()
}

// sealBody encrypts a group while it hashes the one before, so one group is
// always behind.
func (w *wide) sealBody() {
	emit(w.counters(), w.aes())
	w.additional()
	w.CMPQ(w.left, operand.U32(groupBytes))
	w.JB(operand.LabelRef("short"))
	emit(w.finish())

	w.Label("loop")
	w.CMPQ(w.left, operand.U32(2*groupBytes))
	w.JB(operand.LabelRef("tail"))
	first, second := w.groupHash(w.block, 16*(powers-32), true), w.groupHash(w.block, 16*(powers-16), false)
	weave(w.encrypt(), first, 2)
	emit(w.finish())
	weave(w.encrypt(), append(second, w.reduce()...), 2)
	emit(w.finish())
	w.JMP(operand.LabelRef("loop"))

	w.Label("tail")
	w.tailSums(16)
	w.CMPQ(w.left, operand.U32(groupBytes))
	w.JB(operand.LabelRef("last"))
	weave(w.encrypt(), w.tailHash(), 2)
	emit(w.finish())
	w.Label("last")
	w.jumpIfNothingLeft("hash4")
	weave(w.encrypt(), w.tailHash(), 2)
	w.JMP(operand.LabelRef("partial"))

	w.Label("short")
	w.tailSums(0)
	w.jumpIfNothingLeft("none")
}

// openBody decrypts and hashes the same group.
func (w *wide) openBody() {
	w.Label("loop")
	w.CMPQ(w.left, operand.U32(2*groupBytes))
	w.JB(operand.LabelRef("tail"))
	emit(w.fetch())
	weave(w.encrypt(), w.groupHash(w.block, 16*(powers-32), true), 1)
	emit(w.finish(), w.fetch())
	weave(w.encrypt(), append(w.groupHash(w.block, 16*(powers-16), false), w.reduce()...), 1)
	emit(w.finish())
	w.JMP(operand.LabelRef("loop"))

	w.Label("tail")
	w.tailSums(0)
	w.CMPQ(w.left, operand.U32(groupBytes))
	w.JB(operand.LabelRef("last"))
	emit(w.fetch())
	weave(w.encrypt(), w.tailHash(), 1)
	emit(w.finish())
	w.jumpIfNothingLeft("hash0")
	w.Label("last")
	w.jumpIfNothingLeft("none")
	emit(w.encrypt())
}

// encrypt is a group's AES up to the round before the last.
func (w *wide) encrypt() stream { return append(w.counters(), w.aes()...) }

// counters makes the group's counter blocks and moves base on to the next
// group. A record's data starts at counter 2, so the last two blocks of a group
// have the next value of the counter's upper 28 bits.
func (w *wide) counters() stream {
	var s stream
	for i := range 3 {
		s = append(s, func() { w.VPXORQ(at(w.block, offCounters+64*i), w.base, w.state[i]) })
	}
	n := w.scratch.As32()
	return append(s,
		func() { w.ADDL(imm(16), w.ctr.As32()) },
		func() { w.MOVL(w.ctr.As32(), n) },
		func() { w.BSWAPL(n) },
		func() { w.XORL(at(w.block, offRoundKeys+12), n) },
		func() { w.VPBROADCASTD(n, w.upper, w.base) },
		func() { w.VPXORQ(at(w.block, offCounters+192), w.base, w.state[3]) },
		func() { w.VPBROADCASTD(n, w.lower, w.base) },
	)
}

func (w *wide) aes() stream {
	var s stream
	for r := 1; r < w.rounds; r++ {
		for _, x := range w.state {
			s = append(s, func() { w.VAESENC(w.keys[r], x, x) })
		}
	}
	return s
}

// finish does the last round of four whole vectors, stores them and moves on.
// The last round key is xored to the data ahead of the round: the round's own
// xor then does both.
func (w *wide) finish() stream {
	var s stream
	for i := range 4 {
		s = append(s, w.finishVector(i)...)
	}
	return append(s, w.advance()...)
}

func (w *wide) finishVector(i int) stream {
	x, t := w.state[i], w.tmp[i%3]
	s := stream{
		func() { w.VPXORQ(at(w.src, 64*i), w.keys[w.rounds], t) },
		func() { w.VAESENCLAST(t, x, x) },
		func() { w.VMOVDQU64(x, at(w.dst, 64*i)) },
	}
	if w.dir == sealing {
		s = append(s, func() { w.VPSHUFB(w.swap, x, w.data[i]) })
	}
	return s
}

// fetch loads a group's ciphertext to be hashed, before finish overwrites it.
func (w *wide) fetch() stream {
	var s stream
	for i := range 4 {
		s = append(s,
			func() { w.VMOVDQU64(at(w.src, 64*i), w.data[i]) },
			func() { w.VPSHUFB(w.swap, w.data[i], w.data[i]) })
	}
	return s
}
