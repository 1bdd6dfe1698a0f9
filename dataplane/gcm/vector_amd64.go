package gcm

import (
	"encoding/binary"
	"sync"
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:generate go run -C asmgen . ..

// CPUID leaf 7, ECX. golang.org/x/sys/cpu knows these two only for CPUs with
// AVX-512.
const (
	leaf7VAES       = 1 << 9
	leaf7VPCLMULQDQ = 1 << 10
)

// hasVAES256 asks for the operating system's consent too: x/sys/cpu reports
// AVX2 only with it. The answer is kept: in a virtual machine CPUID costs
// microseconds.
var hasVAES256 = sync.OnceValue(func() bool {
	const both = leaf7VAES | leaf7VPCLMULQDQ
	return cpu.X86.HasAVX2 && cpu.X86.HasAES && cpu.X86.HasPCLMULQDQ &&
		cpu.X86.HasBMI2 && leaf7()&both == both
})

// hasVAES512 asks for what the 512-bit variant uses; the key schedule is that
// of the other one. x/sys/cpu reports AVX-512 only with the operating system's
// consent (XCR0).
func hasVAES512() bool {
	return cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL &&
		cpu.X86.HasAVX512VAES && cpu.X86.HasAVX512VPCLMULQDQ && hasVAES256()
}

func newVector(key []byte, impl Impl) vector {
	v := vector{block: newConstants()}
	lanes, bits := 2, 8*len(key)
	if bits == 256 {
		expand256(v.block, unsafe.SliceData(key))
	} else {
		expand128(v.block, unsafe.SliceData(key))
	}
	switch {
	case impl == VAES512 && bits == 256:
		lanes, v.seal, v.open = 4, sealWide256, openWide256
	case impl == VAES512:
		lanes, v.seal, v.open = 4, sealWide128, openWide128
	case bits == 256:
		v.seal, v.open = sealNarrow256, openNarrow256
	default:
		v.seal, v.open = sealNarrow128, openNarrow128
	}
	fillPowers(v.block)
	fillHalves(v.block, lanes)
	return v
}

// newConstants returns a block with all that does not depend on the key.
func newConstants() *block {
	b := new(block)
	for i := range 16 {
		// Data starts at counter 2, so the last two of 16 belong to the next 16.
		b.counters[16*i+15] = byte(i+2) % 16
	}
	for i := range b.swap {
		b.swap[i] = 15 - byte(i)%16
	}
	for i := range b.poly {
		b.poly[i] = 0xc200_0000_0000_0000
	}
	return b
}

// fillHalves computes low xor high half of each power, with that of the power
// which the next vector's block in the same lane is multiplied by.
func fillHalves(b *block, lanes int) {
	half := func(i int) uint64 {
		p := b.powers[i][:]
		return binary.LittleEndian.Uint64(p) ^ binary.LittleEndian.Uint64(p[8:])
	}
	for i := range b.halves {
		b.halves[i][0] = half(i)
		if i+lanes < len(b.powers) {
			b.halves[i][1] = half(i + lanes)
		}
	}
}
