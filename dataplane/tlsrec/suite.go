package tlsrec

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"

	"github.com/sluice-mesh/sluice/dataplane/gcm"
)

// A Suite is a cipher suite of TLS 1.3, by its number on the wire.
type Suite uint16

// The suites that Go's handshake settles on; none can be left out.
const (
	AES128GCM        Suite = 0x1301
	AES256GCM        Suite = 0x1302
	ChaCha20Poly1305 Suite = 0x1303
)

// Suites are all of them.
func Suites() []Suite { return []Suite{AES128GCM, AES256GCM, ChaCha20Poly1305} }

// String returns the suite's name in RFC 8446, appendix B.4.
func (s Suite) String() string {
	switch s {
	case AES128GCM:
		return "TLS_AES_128_GCM_SHA256"
	case AES256GCM:
		return "TLS_AES_256_GCM_SHA384"
	case ChaCha20Poly1305:
		return "TLS_CHACHA20_POLY1305_SHA256"
	}
	return fmt.Sprintf("suite(%#04x)", uint16(s))
}

// known reports whether s is one of Suites.
func (s Suite) known() bool {
	return s == AES128GCM || s == AES256GCM || s == ChaCha20Poly1305
}

// secretLen is the length of a traffic secret: that of the suite's hash.
func (s Suite) secretLen() int {
	if s == AES256GCM {
		return sha512.Size384
	}
	return sha256.Size
}

// keyLen is the length of the suite's key.
func (s Suite) keyLen() int {
	if s == AES128GCM {
		return 16
	}
	return 32
}

// recordLimit is how many records may be sealed with one key: for AES-GCM
// 2^24.5 (RFC 8446 5.5), of which we use 2^24. ChaCha20-Poly1305 has none that
// could be reached, and is kept to the same.
const recordLimit = 1 << 24

// updateAfter is how many records we seal, or let the peer seal, before we ask
// for the next key.
const updateAfter = recordLimit / 2

// expand is HKDF-Expand-Label of RFC 8446 7.1 without a context.
func (s Suite) expand(secret []byte, label string, n int) []byte {
	const prefix = "tls13 "
	info := make([]byte, 0, 32)
	info = append(info, byte(n>>8), byte(n), byte(len(prefix)+len(label)))
	info = append(info, prefix...)
	info = append(info, label...)
	info = append(info, 0)
	var (
		out []byte
		err error
	)
	if s == AES256GCM {
		out, err = hkdf.Expand(sha512.New384, secret, string(info), n)
	} else {
		out, err = hkdf.Expand(sha256.New, secret, string(info), n)
	}
	if err != nil { // only for lengths that we never ask for
		panic("tlsrec: expand " + label + ": " + err.Error())
	}
	return out
}

// An aead is one traffic key, expanded: *gcm.Key, or ChaCha20-Poly1305. It seals
// and opens one record per call; for many, a loop around it costs nothing that
// could be measured from 1 KiB up.
type aead interface {
	Open(dst, nonce, ciphertext, ad []byte) ([]byte, error)
	// SealRecord seals plaintext and one more byte, the content type.
	SealRecord(dst, nonce, plaintext []byte, contentType byte, ad []byte) []byte
	Destroy()
}

// newAEAD expands key; impl says which AES-GCM is used.
func (s Suite) newAEAD(key []byte, impl gcm.Impl) (aead, error) {
	if s != ChaCha20Poly1305 {
		return gcm.New(key, impl)
	}
	c, err := chacha20poly1305.New(key)
	if err != nil {
		return nil, fmt.Errorf("new key: %w", err)
	}
	return &chacha{c}, nil
}

// chacha is ChaCha20-Poly1305 as an aead.
type chacha struct{ cipher.AEAD }

// SealRecord needs room for the result in dst.
func (c *chacha) SealRecord(dst, nonce, plaintext []byte, contentType byte, ad []byte) []byte {
	n := len(plaintext) + 1
	inner := dst[len(dst) : len(dst)+n : len(dst)+n+tagLen]
	copy(inner, plaintext)
	inner[n-1] = contentType
	return c.Seal(dst, nonce, inner, ad)
}

// Destroy lets the key go: its memory cannot be reached.
func (c *chacha) Destroy() { c.AEAD = nil }
