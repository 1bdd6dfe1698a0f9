package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// tailSums is lengthsHash with the registers of this variant.
func (w *wide) tailSums(waiting int) {
	w.lengthsHash(waiting, w.tmp[0].AsX(), w.tmp[1].AsX(), w.lo.AsX(), w.hi.AsX(), w.mid.AsX())
}

// tailHash adds a whole group to the sums, and the running hash once.
func (w *wide) tailHash() stream {
	hash := w.hash.AsX()
	s := w.pairHash(2, w.power, 0, false)
	s = append(s, func() { w.VPXORQ(w.hash, w.data[0], w.data[0]) })
	s = append(s, w.pairHash(0, w.power, 0, false)...)
	return append(s,
		func() { w.VPXOR(hash, hash, hash) },
		func() { w.ADDQ(operand.U32(groupBytes), w.power) })
}

// partial does the last round of a group that is not whole: 1 to 256 bytes
// with the trailer, whose AES waits for it. It leaves the ciphertext in data,
// zero where there is none, and goes to the hash of two or of four vectors.
func (w *wide) partial() {
	w.Label("partial")
	for i := range 4 {
		if i < 3 {
			w.CMPQ(w.left, imm(64))
			w.JB(operand.LabelRef(fmt.Sprintf("part%d", i)))
			if w.dir == opening {
				w.VMOVDQU64(at(w.src, 64*i), w.data[i])
				w.VPSHUFB(w.swap, w.data[i], w.data[i])
			}
			emit(w.finishVector(i))
			w.SUBQ(imm(64), w.left)
		}
	}
	for i := 3; i >= 0; i-- {
		w.Label(fmt.Sprintf("part%d", i))
		// A store of no bytes would still stand in the way of the next load.
		w.jumpIfNothingLeft(fmt.Sprintf("even%d", i))
		w.partVector(i)
		if i%2 == 0 {
			w.VPXORQ(w.data[i+1], w.data[i+1], w.data[i+1])
		}
		w.JMP(operand.LabelRef([]string{"hash2", "hash4"}[i/2]))
	}
	for i := 3; i > 0; i-- {
		w.Label(fmt.Sprintf("even%d", i))
		if i%2 == 1 {
			w.VPXORQ(w.data[i], w.data[i], w.data[i])
		}
		w.JMP(operand.LabelRef([]string{"hash2", "hash4"}[(i-1)/2]))
	}
	w.Label("even0")
	w.Label("none")
	for i := range 2 {
		w.VPXORQ(w.data[i], w.data[i], w.data[i])
	}
	w.JMP(operand.LabelRef("hash2"))
}

// partVector does a vector of 1 to 63 bytes, or less and the trailer. Nothing is read
// or written outside of them; lanes that are masked off never fault.
func (w *wide) partVector(i int) {
	x, t := w.state[i], w.tmp[0]
	ones := w.ad
	w.MOVQ(operand.I32(-1), ones)
	w.BZHIQ(w.left, ones, w.scratch)
	w.KMOVQ(w.scratch, w.loadMask)
	w.VMOVDQU8_Z(at(w.src, 64*i), w.loadMask, t)
	store := w.loadMask
	if w.dir == sealing {
		store = w.storeMask
		w.ADDQ(w.extra, w.left)
		w.BZHIQ(w.left, ones, w.ad)
		w.KMOVQ(w.ad, w.storeMask)
		w.XORQ(w.scratch, w.ad)
		w.KMOVQ(w.ad, w.typeMask)
		w.VPBROADCASTB(w.trailer.As32(), w.typeMask, t)
	} else {
		w.VPSHUFB(w.swap, t, w.data[i])
	}
	w.VPXORQ(w.keys[w.rounds], t, t)
	w.VAESENCLAST(t, x, x)
	w.VMOVDQU8(x, store, at(w.dst, 64*i))
	if w.dir == sealing {
		w.VMOVDQU8_Z(x, store, x)
		w.VPSHUFB(w.swap, x, w.data[i])
	}
}

// finalHash hashes what is in data, reduces once and makes the tag.
func (w *wide) finalHash() {
	w.Label("hash4")
	emit(w.pairHash(2, w.power, 0, false))
	w.Label("hash2")
	w.VPXORQ(w.hash, w.data[0], w.data[0])
	emit(w.pairHash(0, w.power, 0, false))
	w.Label("hash0")
	emit(w.reduce())

	w.finishTag(w.hash.AsX(), w.mask.AsX())
}

// epilogue leaves no key, no data and no hash in a register. VZEROALL clears
// the lower 16 in full width, and with it what VZEROUPPER is there for.
func (w *wide) epilogue() {
	for _, r := range []reg.VecPhysical{
		reg.X16, reg.X17, reg.X18, reg.X19, reg.X20, reg.X21, reg.X22, reg.X23,
		reg.X24, reg.X25, reg.X26, reg.X27, reg.X28, reg.X29, reg.X30, reg.X31,
	} {
		w.VPXORQ(r, r, r)
	}
	w.VZEROALL()
	w.clearGeneral()
	w.RET()
}
