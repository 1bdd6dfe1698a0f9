package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tailSums is lengthsHash with the registers of this variant.
func (n *narrow) tailSums(waiting int) {
	n.lengthsHash(waiting, n.even.AsX(), n.odd.AsX(), n.lo.AsX(), n.hi.AsX(), n.mid.AsX())
}

// tailHash adds a whole group to the sums, and the running hash once.
func (n *narrow) tailHash(data reg.Register, dataOff int) stream {
	hash := n.hash.AsX()
	return append(n.groupHash(data, dataOff, n.power, 0, carry),
		func() { n.VPXOR(hash, hash, hash) },
		func() { n.ADDQ(operand.U32(groupBytes), n.power) })
}

// partial does the last round of a group that is not whole: 1 to 256 bytes
// with the trailer, whose AES waits for it. Ciphertext of whole vectors stays in
// state to be hashed. What is left after them, up to 31 bytes and the trailer,
// goes through the stack and is hashed as a pair of its own, the odd one zero.
func (n *narrow) partial() {
	vectors := n.adLeft // bytes in whole vectors
	last := n.state[7]  // AES for the vector that is not whole

	n.Label("partial")
	n.loadKey(n.rounds)()
	for i := range 7 {
		n.CMPQ(n.left, imm(32))
		n.JB(operand.LabelRef(fmt.Sprintf("part%d", i)))
		n.wholeVector(i)
		n.SUBQ(imm(32), n.left)
	}
	for i := 7; i >= 0; i-- {
		n.Label(fmt.Sprintf("part%d", i))
		n.MOVL(operand.U32(32*i), vectors.As32())
		if i < 7 {
			n.VMOVDQA(n.state[i], last)
		}
		if i == 0 {
			n.VPXOR(n.state[0], n.state[0], n.state[0])
			n.VPXOR(n.state[1], n.state[1], n.state[1])
		} else if i%2 == 1 && i < 7 {
			n.VPXOR(n.state[i], n.state[i], n.state[i])
		}
		if i > 0 {
			n.JMP(operand.LabelRef("part"))
		}
	}

	n.Label("part")
	n.jumpIfNothingLeft("parts")
	n.partVector(last, vectors)
	n.Label("parts")
	n.VPXOR(last, last, last)
	for _, pairs := range []int{3, 2, 1} {
		n.CMPQ(vectors, operand.U32(64*pairs))
		n.JA(operand.LabelRef(fmt.Sprintf("hash%d", pairs+1)))
	}
	n.JMP(operand.LabelRef("hash1"))

	n.Label("none")
	n.VPXOR(n.state[0], n.state[0], n.state[0])
	n.VPXOR(n.state[1], n.state[1], n.state[1])
	n.JMP(operand.LabelRef("hash1"))
}

// wholeVector does the last round of one vector and leaves its ciphertext in
// state.
func (n *narrow) wholeVector(i int) {
	x := n.state[i]
	if n.dir == sealing {
		n.VPXOR(at(n.src, 32*i), n.key, n.tmp)
		n.VAESENCLAST(n.tmp, x, x)
		n.VMOVDQU(x, at(n.dst, 32*i))
		return
	}
	n.VMOVDQU(at(n.src, 32*i), n.even)
	n.VPXOR(n.even, n.key, n.tmp)
	n.VAESENCLAST(n.tmp, x, n.tmp)
	n.VMOVDQU(n.tmp, at(n.dst, 32*i))
	n.VMOVDQA(n.even, x)
}

// partVector does a vector of less than 32 bytes and the trailer, at the
// offset vectors of the group, and hashes it.
func (n *narrow) partVector(x reg.VecPhysical, vectors reg.GPPhysical) {
	stack := n.ctr
	n.ADDQ(vectors, n.src)
	n.ADDQ(vectors, n.dst)
	n.VPXOR(n.even, n.even, n.even)
	n.VMOVDQU(n.even, n.part)
	n.LEAQ(n.part, stack)
	n.copyBytes("in", n.src, stack, n.left, 16)
	if n.dir == sealing {
		n.Comment("Without a trailer this writes one byte that is cut off below.")
		n.MOVB(n.trailer.As8(), operand.Mem{Base: stack})
		n.ADDQ(n.extra, n.left)
	}
	n.VMOVDQU(n.part, n.even)
	n.VPXOR(n.even, n.key, n.tmp)
	n.VAESENCLAST(n.tmp, x, n.tmp)
	if n.dir == sealing {
		n.LEAQ(n.ones.Offset(32), n.ad)
		n.SUBQ(n.left, n.ad)
		n.VPAND(at(n.ad, 0), n.tmp, n.even)
	}
	n.VMOVDQU(n.tmp, n.part)
	n.LEAQ(n.part, stack)
	n.copyBytes("out", stack, n.dst, n.left, 32)
	n.VPSHUFB(at(n.block, offSwap), n.even, n.even)
	n.VPXOR(n.odd, n.odd, n.odd)
	n.LEAQ(operand.Mem{Base: n.power, Index: vectors, Scale: 1}, n.ad)
	emit(n.pairHash(0, n.ad, 0, false))
}

// copyBytes copies count bytes, less than twice top, in pieces whose sizes are
// the bits of count, and advances both pointers.
func (n *narrow) copyBytes(label string, from, to, count reg.GPPhysical, top int) {
	for size := top; size > 0; size /= 2 {
		skip := fmt.Sprintf("%sLess%d", label, size)
		src, dst := operand.Mem{Base: from}, operand.Mem{Base: to}
		n.TESTQ(operand.U32(size), count)
		n.JZ(operand.LabelRef(skip))
		switch size {
		case 32:
			n.VMOVDQU(src, n.odd)
			n.VMOVDQU(n.odd, dst)
		case 16:
			n.VMOVDQU(src, n.odd.AsX())
			n.VMOVDQU(n.odd.AsX(), dst)
		case 8:
			n.MOVQ(src, n.scratch)
			n.MOVQ(n.scratch, dst)
		case 4:
			n.MOVL(src, n.scratch.As32())
			n.MOVL(n.scratch.As32(), dst)
		case 2:
			n.MOVW(src, n.scratch.As16())
			n.MOVW(n.scratch.As16(), dst)
		case 1:
			n.MOVB(src, n.scratch.As8())
			n.MOVB(n.scratch.As8(), dst)
		}
		if size > 1 {
			n.ADDQ(imm(uint8(size)), from)
		}
		if size > 1 || label == "in" {
			n.ADDQ(imm(uint8(size)), to)
		}
		n.Label(skip)
	}
}

// finalHash hashes the pairs that are in state, reduces once and makes the tag.
func (n *narrow) finalHash() {
	for pair := 3; pair >= 0; pair-- {
		n.Label(fmt.Sprintf("hash%d", pair+1))
		n.VPSHUFB(at(n.block, offSwap), n.state[2*pair], n.even)
		n.VPSHUFB(at(n.block, offSwap), n.state[2*pair+1], n.odd)
		if pair == 0 {
			n.VPXOR(n.hash, n.even, n.even)
		}
		emit(n.pairHash(2*pair, n.power, 0, false))
	}
	n.Label("hash0")
	emit(n.reduce())
	n.finishTag(n.hash.AsX(), n.mask)
}

// epilogue leaves no key, no data and no hash in a register or on the stack.
// VZEROALL does what VZEROUPPER is there for, too.
func (n *narrow) epilogue() {
	n.VZEROALL()
	n.VMOVDQU(reg.Y0, n.base)
	n.VMOVDQU(reg.Y0, n.part)
	n.clearGeneral()
	n.RET()
}
