package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A direction is which of the two jobs a function does.
type direction bool

const (
	sealing direction = true
	opening direction = false
)

const (
	groupBytes = 256 // a group is 16 blocks, whatever the registers' width
	lastPower  = 16 * (powers - 1)
)

// kernel is what the 512-bit and the 256-bit variant have in common: the
// arguments, the general registers, and the ends of a message.
type kernel struct {
	*build.Context
	rounds int
	dir    direction

	block    reg.GPPhysical
	dst, src reg.GPPhysical // of the group at hand
	left     reg.GPPhysical // bytes of source not done yet
	extra    reg.GPPhysical // 1 when a trailer follows them
	trailer  reg.GPPhysical
	power    reg.GPPhysical // in the tail: block plus the offset in powers
	tag      reg.GPPhysical // where it is or goes
	ctr      reg.GPPhysical // low 32 bits of the group's counter
	scratch  reg.GPPhysical
	ad       reg.GPPhysical // free after the additional data
	adLeft   reg.GPPhysical // the same
}

func newKernel(ctx *build.Context, rounds int, dir direction) kernel {
	return kernel{
		Context: ctx, rounds: rounds, dir: dir,
		block: reg.RAX, dst: reg.RDI, src: reg.RSI, left: reg.RCX, extra: reg.R8,
		trailer: reg.R12, power: reg.R9, tag: reg.R10, ctr: reg.RBX, scratch: reg.R11,
		ad: reg.R13, adLeft: reg.RDX,
	}
}

func imm(n uint8) operand.Op { return operand.U8(n) }

// start begins the function; variant is Wide or Narrow.
func (k *kernel) start(variant string) {
	bits := map[int]int{10: 128, 14: 256}[k.rounds]
	if k.dir == sealing {
		name := fmt.Sprintf("seal%s%d", variant, bits)
		start(k.Context, name,
			"func(b *block, dst, src *byte, n int, nonce *[12]byte, ad *byte, adLen, trailer, extra int)",
			name+" encrypts n bytes from src to dst, and behind them, when extra is 1",
			"and not 0, the byte trailer, and writes the tag after that.")
		return
	}
	name := fmt.Sprintf("open%s%d", variant, bits)
	start(k.Context, name,
		"func(b *block, dst, src *byte, n int, nonce *[12]byte, ad *byte, adLen int) (ok bool)",
		name+" decrypts n bytes from src to dst and reports whether the 16",
		"bytes behind them are the tag. On false the caller must clear dst.")
}

// arguments loads what the prologue needs; scratch points at the nonce.
func (k *kernel) arguments() {
	k.Load(k.Param("b"), k.block)
	k.Load(k.Param("dst"), k.dst)
	k.Load(k.Param("src"), k.src)
	k.Load(k.Param("n"), k.left)
	k.Load(k.Param("nonce"), k.scratch)
	k.Load(k.Param("ad"), k.ad)
	k.Load(k.Param("adLen"), k.adLeft)
}

// findTag sets tag, and extra and trailer when sealing.
func (k *kernel) findTag() {
	if k.dir == opening {
		k.LEAQ(operand.Mem{Base: k.src, Index: k.left, Scale: 1}, k.tag)
		return
	}
	k.Load(k.Param("trailer"), k.trailer)
	k.Load(k.Param("extra"), k.extra)
	k.LEAQ(operand.Mem{Base: k.dst, Index: k.left, Scale: 1}, k.tag)
	k.ADDQ(k.extra, k.tag)
}

// advance moves on by one whole group.
func (k *kernel) advance() stream {
	return stream{
		func() { k.ADDQ(operand.U32(groupBytes), k.src) },
		func() { k.ADDQ(operand.U32(groupBytes), k.dst) },
		func() { k.SUBQ(operand.U32(groupBytes), k.left) },
	}
}

// jumpIfNothingLeft jumps when neither source nor trailer is left.
func (k *kernel) jumpIfNothingLeft(label string) {
	if k.dir == opening {
		k.TESTQ(k.left, k.left)
	} else {
		k.MOVQ(k.left, k.scratch)
		k.ADDQ(k.extra, k.scratch)
	}
	k.JZ(operand.LabelRef(label))
}

// lengthsHash points power at the powers for all blocks that were not hashed
// yet, those left and the ones waiting, and starts the sums with the product of
// H and the block of lengths. With b blocks to go the first gets H to the b+1.
// From here on nothing is reduced until the end.
func (k *kernel) lengthsHash(waiting int, t0, t1, lo, hi, mid reg.Register) {
	k.LEAQ(at(k.left, 15+16*waiting), k.power)
	if k.dir == sealing {
		k.ADDQ(k.extra, k.power)
	}
	k.ANDQ(operand.I8(-16), k.power)
	k.NEGQ(k.power)
	k.LEAQ(operand.Mem{Base: k.block, Index: k.power, Scale: 1, Disp: lastPower}, k.power)

	k.Load(k.Param("n"), k.scratch)
	if k.dir == sealing {
		k.ADDQ(k.extra, k.scratch)
	}
	k.SHLQ(imm(3), k.scratch)
	k.Load(k.Param("adLen"), k.ad)
	k.SHLQ(imm(3), k.ad)
	k.VMOVQ(k.scratch, t0)
	k.VPINSRQ(imm(1), k.ad, t0, t0)
	k.XORQ(k.scratch, k.ad)
	k.VMOVQ(k.ad, t1)
	k.VPCLMULQDQ(imm(0x00), at(k.block, offPowers+lastPower), t0, lo)
	k.VPCLMULQDQ(imm(0x11), at(k.block, offPowers+lastPower), t0, hi)
	k.VPCLMULQDQ(imm(0x00), at(k.block, offHalves+lastPower), t1, mid)
}

// finishTag makes the tag of the hash, and writes it or compares it.
func (k *kernel) finishTag(hash reg.Register, mask operand.Op) {
	k.VPSHUFB(at(k.block, offSwap), hash, hash)
	k.VPXOR(mask, hash, hash)
	if k.dir == sealing {
		k.VMOVDQU(hash, at(k.tag, 0))
		return
	}
	k.Comment("All bits of the tag are looked at; one comes out.")
	k.VPXOR(at(k.tag, 0), hash, hash)
	k.VPTEST(hash, hash)
	k.SETEQ(k.scratch.As8())
	k.Store(k.scratch.As8(), k.Return("ok"))
}

// clearGeneral clears the general registers that held a byte of data or of a
// round key.
func (k *kernel) clearGeneral() {
	for _, r := range []reg.GPPhysical{k.scratch, k.trailer, k.ad, k.adLeft} {
		k.XORL(r.As32(), r.As32())
	}
}
