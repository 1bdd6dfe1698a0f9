package main

import (
	"fmt"
	"go/token"
	"go/types"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/gotypes"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// start begins a function without a frame whose signature may name block.
func start(ctx *build.Context, name, signature string, doc ...string) {
	pkg := types.NewPackage("github.com/sluice-mesh/sluice/dataplane/gcm", "gcm")
	obj := types.NewTypeName(token.NoPos, pkg, "block", nil)
	types.NewNamed(obj, types.NewStruct(nil, nil), nil)
	pkg.Scope().Insert(obj)
	sig, err := gotypes.ParseSignatureInPackage(pkg, signature)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", name, err))
	}
	ctx.Function(name)
	ctx.Attributes(attr.NOSPLIT)
	ctx.Doc(doc...)
	ctx.Pragma("noescape")
	ctx.Signature(sig)
}

func at(base reg.Register, off int) operand.Mem {
	return operand.Mem{Base: base, Disp: off}
}

// emitFeatures writes the one CPUID question that golang.org/x/sys/cpu does
// not answer: VAES and VPCLMULQDQ on a CPU without AVX-512.
func emitFeatures(ctx *build.Context) {
	start(ctx, "leaf7", "func() (ecx uint32)",
		"leaf7 returns ECX of CPUID leaf 7. The CPU must have that leaf; one with AVX2 does.")
	ctx.MOVL(operand.U32(7), reg.EAX)
	ctx.XORL(reg.ECX, reg.ECX)
	ctx.CPUID()
	ctx.Store(reg.ECX, ctx.Return("ecx"))
	ctx.RET()
}

// emitExpand writes the AES key schedule, and what the cipher makes of the
// zero block. AESKEYGENASSIST has no table that a cache could show.
func emitExpand(ctx *build.Context, rounds int) {
	bits := 128
	if rounds == 14 {
		bits = 256
	}
	start(ctx, fmt.Sprintf("expand%d", bits), "func(b *block, key *byte)",
		fmt.Sprintf("expand%d fills b's round keys and hash key from the AES-%d key.", bits, bits))
	b, key := reg.RAX, reg.RBX
	ctx.Load(ctx.Param("b"), b)
	ctx.Load(ctx.Param("key"), key)

	even, odd, assist, shifted := reg.X0, reg.X1, reg.X2, reg.X3
	stored := 0
	store := func(x reg.Register) {
		ctx.VMOVDQU(x, at(b, offRoundKeys+16*stored))
		stored++
	}
	// next replaces x by the round key that follows it: each word is the xor
	// of the words up to it, and of the word that assist broadcasts.
	next := func(x, from reg.Register, rcon, word uint8) {
		ctx.VAESKEYGENASSIST(operand.U8(rcon), from, assist)
		ctx.VPSHUFD(operand.U8(word), assist, assist)
		ctx.VPSLLDQ(operand.U8(4), x, shifted)
		ctx.VPXOR(shifted, x, x)
		ctx.VPSLLDQ(operand.U8(8), x, shifted)
		ctx.VPXOR(shifted, x, x)
		ctx.VPXOR(assist, x, x)
		store(x)
	}
	rcons := []uint8{0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0x1b, 0x36}

	ctx.VMOVDQU(at(key, 0), even)
	store(even)
	if rounds == 10 {
		for _, rcon := range rcons {
			next(even, even, rcon, 0xff)
		}
	} else {
		ctx.VMOVDQU(at(key, 16), odd)
		store(odd)
		for i := range 7 {
			next(even, odd, rcons[i], 0xff)
			if i < 6 {
				next(odd, even, 0, 0xaa)
			}
		}
	}

	ctx.VMOVDQU(at(b, offRoundKeys), even) // zero xor the first round key
	for r := 1; r < rounds; r++ {
		ctx.VAESENC(at(b, offRoundKeys+16*r), even, even)
	}
	ctx.VAESENCLAST(at(b, offRoundKeys+16*rounds), even, even)
	ctx.VMOVDQU(even, at(b, offHashKey))
	ctx.VZEROALL()
	ctx.RET()
}

// emitPowers writes the function that computes the powers of H.
//
// GHASH reads a block's bits in the opposite order of its bytes. Byte-swapped,
// a block is the polynomial bit-reversed, and a product of two of those comes
// out one bit too low; so the powers are stored times x, once and for all.
func emitPowers(ctx *build.Context) {
	start(ctx, "fillPowers", "func(b *block)",
		"fillPowers computes b's powers from its hash key. The constants must be there.")
	b, slot := reg.RAX, reg.RBX
	ctx.Load(ctx.Param("b"), b)
	h, p := reg.X0, reg.X1
	tmp := [3]reg.Register{reg.X2, reg.X3, reg.X4}
	acc := [2]reg.Register{reg.X5, reg.X6}

	ctx.Comment("H times x: shift left by one and fold the bit that falls out, by mask and not by branch.")
	ctx.VMOVDQU(at(b, offHashKey), h)
	ctx.VPSHUFB(at(b, offSwap), h, h)
	ctx.VPSRAD(operand.U8(31), h, tmp[0])
	ctx.VPSHUFD(operand.U8(0xff), tmp[0], tmp[0])
	ctx.VPSRLQ(operand.U8(63), h, tmp[1])
	ctx.VPSLLDQ(operand.U8(8), tmp[1], tmp[1])
	ctx.VPADDQ(h, h, h)
	ctx.VPOR(tmp[1], h, h)
	ctx.MOVL(operand.U32(1), reg.ECX)
	ctx.VMOVQ(reg.RCX, tmp[1])
	ctx.VMOVQ(at(b, offPoly), tmp[2])
	ctx.VPUNPCKLQDQ(tmp[2], tmp[1], tmp[1])
	ctx.VPAND(tmp[0], tmp[1], tmp[1])
	ctx.VPXOR(tmp[1], h, h)

	ctx.VMOVDQA(h, p)
	ctx.LEAQ(at(b, offPowers+16*(powers-1)), slot)
	ctx.MOVL(operand.U32(powers), reg.ECX)
	ctx.Label("power")
	ctx.VMOVDQU(p, at(slot, 0))
	multiply(ctx, p, h, at(b, offPoly), acc, tmp[0])
	ctx.SUBQ(operand.U8(16), slot)
	ctx.DECL(reg.ECX)
	ctx.JNZ(operand.LabelRef("power"))
	ctx.VZEROALL()
	ctx.RET()
}

// multiply emits y = y times h, reduced; h is a register or in memory.
func multiply(ctx *build.Context, y reg.Register, h operand.Op, poly operand.Mem, acc [2]reg.Register, tmp reg.Register) {
	lo, mid := acc[0], acc[1]
	ctx.VPCLMULQDQ(operand.U8(0x00), h, y, lo)
	ctx.VPCLMULQDQ(operand.U8(0x01), h, y, mid)
	ctx.VPCLMULQDQ(operand.U8(0x10), h, y, tmp)
	ctx.VPXOR(tmp, mid, mid)
	ctx.VPCLMULQDQ(operand.U8(0x11), h, y, y)
	for _, step := range [][2]reg.Register{{lo, mid}, {mid, y}} {
		from, to := step[0], step[1]
		ctx.VPCLMULQDQ(operand.U8(0x00), poly, from, tmp)
		ctx.VPSHUFD(operand.U8(0x4e), from, from)
		ctx.VPXOR(from, to, to)
		ctx.VPXOR(tmp, to, to)
	}
}
