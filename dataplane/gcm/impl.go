package gcm

import "fmt"

// An Impl is a way to compute AES-GCM. All give the same bytes.
type Impl uint8

const (
	// Auto stands for Best wherever an Impl is asked for.
	Auto Impl = iota
	// Generic is crypto/cipher. Every CPU has it.
	Generic
	// VAES256 is assembly for AVX2 with VAES and VPCLMULQDQ.
	VAES256
	// VAES512 is assembly for AVX-512 (F, BW, VL) with VAES and VPCLMULQDQ.
	VAES512
)

// String returns the name that logs and metrics use.
func (i Impl) String() string {
	switch i {
	case Auto:
		return "auto"
	case Generic:
		return "generic"
	case VAES256:
		return "vaes-256"
	case VAES512:
		return "vaes-512"
	}
	return fmt.Sprintf("impl(%d)", uint8(i))
}

// Usable reports whether this CPU and its operating system can run i.
func (i Impl) Usable() bool {
	switch i {
	case Auto, Generic:
		return true
	case VAES256:
		return hasVAES256()
	case VAES512:
		return hasVAES512()
	}
	return false
}

// Impls returns what this CPU can run, the fastest first.
func Impls() []Impl {
	var usable []Impl
	for _, i := range []Impl{VAES512, VAES256, Generic} {
		if i.Usable() {
			usable = append(usable, i)
		}
	}
	return usable
}

// Best returns the fastest that this CPU can run.
func Best() Impl { return Impls()[0] }
