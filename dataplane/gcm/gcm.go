// Package gcm seals and opens TLS records with AES-GCM, on the vector AES
// instructions of CPUs that have them and with crypto/cipher elsewhere.
//
// Data enters and leaves by Seal, SealRecord and Open of a Key, in place or
// from source to destination. The package is pure: it holds no socket, no
// clock, no goroutine and no state but the keys.
//
// Three implementations do the same: 512-bit registers (AVX-512), 256-bit
// registers (AVX2), both with VAES and VPCLMULQDQ in generated assembly, and
// crypto/cipher. Best says which one this CPU gets; New takes any that it can
// run, so an operator can force the generic one.
//
// Owns: a key's memory from New to Destroy. Threads: any number of goroutines
// may use one Key, but none while another destroys it.
package gcm

import (
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"unsafe"
)

// Sizes in bytes.
const (
	NonceBytes = 12
	TagBytes   = 16

	// MaxBytes is the longest message, trailer included. The assembly cannot be
	// preempted, and this much keeps a processor for about 20 microseconds. A
	// TLS record has at most 16 KiB and a little.
	MaxBytes = 256 << 10

	// MaxAdditional is the most additional data; it is hashed block by block.
	// A TLS 1.3 record has 5 bytes of it.
	MaxAdditional = 4 << 10
)

// ErrOpen says that a message, its tag or its additional data was changed, or
// sealed with another key or nonce. It does not say which.
var ErrOpen = errors.New("gcm: message does not authenticate")

// A Key is one AES-128 or AES-256 key with all that is computed from it once.
// It is a cipher.AEAD.
type Key struct {
	_ noCopy // a copy would outlive Destroy

	// Fixed after New.
	impl    Impl
	vector  vector      // empty with Generic
	generic cipher.AEAD // nil unless with Generic
}

var _ cipher.AEAD = (*Key)(nil)

// noCopy makes vet report copies of a value that holds it.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// New makes a Key from 16 or 32 bytes, which it copies, for impl; Auto stands
// for Best. It costs about 2 microseconds and, with the vector
// implementations, 2.3 KiB.
func New(key []byte, impl Impl) (*Key, error) {
	if len(key) != 16 && len(key) != 32 {
		return nil, fmt.Errorf("gcm: new key: %d bytes; AES-128 takes 16 and AES-256 takes 32", len(key))
	}
	if impl == Auto {
		impl = Best()
	}
	if !impl.Usable() {
		return nil, fmt.Errorf("gcm: new key: this CPU cannot run %v; choose %v", impl, Best())
	}
	k := &Key{impl: impl}
	if impl != Generic {
		k.vector = newVector(key, impl)
		return k, nil
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("gcm: new key: %w", err)
	}
	if k.generic, err = cipher.NewGCM(block); err != nil {
		return nil, fmt.Errorf("gcm: new key: %w", err)
	}
	return k, nil
}

// Impl says what k runs on.
func (k *Key) Impl() Impl { return k.impl }

// NonceSize returns NonceBytes.
func (k *Key) NonceSize() int { return NonceBytes }

// Overhead returns TagBytes.
func (k *Key) Overhead() int { return TagBytes }

// Destroy overwrites the key's memory; any later use of k but another Destroy
// panics. What crypto/cipher holds for the generic implementation cannot be
// reached: it is only let go.
func (k *Key) Destroy() {
	k.vector.destroy()
	k.generic = nil
}

// Seal appends the ciphertext of plaintext and the tag to dst and returns the
// extended slice. What it writes must be exactly where plaintext is or not
// overlap it, and must not overlap ad. It allocates only when dst has no room.
//
// A nonce must never serve twice with one key.
func (k *Key) Seal(dst, nonce, plaintext, ad []byte) []byte {
	if len(nonce) != NonceBytes || len(plaintext) > MaxBytes || len(ad) > MaxAdditional {
		panicSizes("seal", len(nonce), len(plaintext), len(ad))
	}
	all, out := extend(dst, len(plaintext)+TagBytes)
	if overlapsElsewhere(out, plaintext) || overlaps(out, ad) {
		panic("gcm: seal: output overlaps input; let it start where the plaintext does, or apart")
	}
	switch {
	case k.vector.seal != nil:
		k.vector.seal(k.vector.block, unsafe.SliceData(out), unsafe.SliceData(plaintext), len(plaintext),
			(*[NonceBytes]byte)(nonce), unsafe.SliceData(ad), len(ad), 0, 0)
	case k.generic != nil:
		k.generic.Seal(out[:0], nonce, plaintext, ad)
	default:
		panic("gcm: seal: key was destroyed")
	}
	return all
}

// SealRecord is Seal for plaintext with one more byte behind it, the content
// type of TLSInnerPlaintext (RFC 8446 5.2), which need not be in memory: a
// record can be sealed from the block that it was read into to where it is
// sent from.
func (k *Key) SealRecord(dst, nonce, plaintext []byte, contentType byte, ad []byte) []byte {
	n := len(plaintext) + 1
	if len(nonce) != NonceBytes || n > MaxBytes || len(ad) > MaxAdditional {
		panicSizes("seal record", len(nonce), n, len(ad))
	}
	all, out := extend(dst, n+TagBytes)
	if overlapsElsewhere(out, plaintext) || overlaps(out, ad) {
		panic("gcm: seal record: output overlaps input; let it start where the plaintext does, or apart")
	}
	switch {
	case k.vector.seal != nil:
		// That there is a trailer is no secret, but its value is.
		k.vector.seal(k.vector.block, unsafe.SliceData(out), unsafe.SliceData(plaintext), len(plaintext),
			(*[NonceBytes]byte)(nonce), unsafe.SliceData(ad), len(ad), int(contentType), 1)
	case k.generic != nil:
		copy(out, plaintext)
		out[n-1] = contentType
		k.generic.Seal(out[:0], nonce, out[:n], ad)
	default:
		panic("gcm: seal record: key was destroyed")
	}
	return all
}

// Open appends the plaintext of ciphertext, which ends with the tag, to dst
// and returns the extended slice. What it writes must be exactly where
// ciphertext is or not overlap it, and must not overlap ad. It allocates only
// when dst has no room.
//
// When the tag is wrong the error is ErrOpen, nothing is returned, and the
// room for the plaintext has been zeroed: bytes that did not authenticate are
// never seen. Whoever else can read dst must not do so before Open returns.
func (k *Key) Open(dst, nonce, ciphertext, ad []byte) ([]byte, error) {
	n := len(ciphertext) - TagBytes
	if len(nonce) != NonceBytes {
		panicSizes("open", len(nonce), n, len(ad))
	}
	if n < 0 || n > MaxBytes || len(ad) > MaxAdditional {
		return nil, ErrOpen
	}
	all, out := extend(dst, n)
	if overlapsElsewhere(out, ciphertext) || overlaps(out, ad) {
		panic("gcm: open: output overlaps input; let it start where the ciphertext does, or apart")
	}
	ok := false
	switch {
	case k.vector.open != nil:
		ok = k.vector.open(k.vector.block, unsafe.SliceData(out), unsafe.SliceData(ciphertext), n,
			(*[NonceBytes]byte)(nonce), unsafe.SliceData(ad), len(ad))
	case k.generic != nil:
		_, err := k.generic.Open(out[:0], nonce, ciphertext, ad)
		ok = err == nil
	default:
		panic("gcm: open: key was destroyed")
	}
	if !ok {
		clear(out)
		return nil, ErrOpen
	}
	return all, nil
}

// panicSizes says what is wrong with the sizes of an argument.
func panicSizes(op string, nonce, message, ad int) {
	panic(fmt.Sprintf("gcm: %s: nonce of %d bytes, message of %d, additional data of %d; want %d, at most %d, at most %d",
		op, nonce, message, ad, NonceBytes, MaxBytes, MaxAdditional))
}
