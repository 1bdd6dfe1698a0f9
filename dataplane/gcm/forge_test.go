package gcm

import (
	"bytes"
	"errors"
	"testing"

	"github.com/sluice-mesh/sluice/internal/testkit"
)

// refuse opens a forged message apart and in place, and fails unless it is
// refused and its plaintext zeroed.
func (r rig) refuse(t *testing.T, what string, m message) {
	t.Helper()
	for _, k := range r.keys {
		n := max(0, len(m.sealed)-TagBytes)
		out, intact := cage(3, n)
		fill(out, 0xaa)
		got, err := k.Open(out[:0], m.nonce, m.sealed, m.ad)
		if !errors.Is(err, ErrOpen) || got != nil {
			t.Fatalf("%v, %d bytes: %s was opened: %v", k.Impl(), n, what, err)
		}
		if len(m.sealed) >= TagBytes && !isAll(out, 0) || !intact() {
			t.Fatalf("%v, %d bytes: %s left something in the room for the plaintext, or wrote outside", k.Impl(), n, what)
		}
		if n == 0 {
			continue
		}
		room, roomIntact := cage(5, len(m.sealed))
		copy(room, m.sealed)
		if got, err = k.Open(room[:0], m.nonce, room, m.ad); !errors.Is(err, ErrOpen) || got != nil {
			t.Fatalf("%v, %d bytes: %s was opened in place: %v", k.Impl(), n, what, err)
		}
		if !isAll(room[:n], 0) || !bytes.Equal(room[n:], m.sealed[n:]) || !roomIntact() {
			t.Fatalf("%v, %d bytes: %s left something in place, or wrote outside", k.Impl(), n, what)
		}
	}
}

func fill(b []byte, c byte) {
	for i := range b {
		b[i] = c
	}
}

// flip returns b with one bit changed.
func flip(b []byte, bit int) []byte {
	c := bytes.Clone(b)
	c[bit/8] ^= 1 << (bit % 8)
	return c
}

func TestEveryTagBit(t *testing.T) {
	eachRig(t, func(t *testing.T, r rig) {
		for _, n := range lengths(16385) {
			m := r.message(random(20, NonceBytes), random(21, n), random(22, 5))
			for bit := range 8 * TagBytes {
				forged := m
				forged.sealed = flip(m.sealed, 8*n+bit)
				r.refuse(t, "a flipped bit of the tag", forged)
			}
		}
	})
}

func TestEveryDataBit(t *testing.T) {
	eachRig(t, func(t *testing.T, r rig) {
		for _, n := range lengths(testkit.Scaled(1025, 16385)) {
			m := r.message(random(23, NonceBytes), random(24, n), random(25, 20))
			step := 1
			if n > 64 && !testkit.Soak() {
				step = 7 // 7 and 8 have no common factor: every bit of a byte comes up
			}
			for bit := 0; bit < 8*n; bit += step {
				forged := m
				forged.sealed = flip(m.sealed, bit)
				r.refuse(t, "a flipped bit of the ciphertext", forged)
			}
			for bit := range 8 * len(m.ad) {
				forged := m
				forged.ad = flip(m.ad, bit)
				r.refuse(t, "a flipped bit of the additional data", forged)
			}
			for bit := range 8 * NonceBytes {
				forged := m
				forged.nonce = flip(m.nonce, bit)
				r.refuse(t, "a flipped bit of the nonce", forged)
			}
		}
	})
}

func TestCutAndStretched(t *testing.T) {
	eachRig(t, func(t *testing.T, r rig) {
		m := r.message(random(26, NonceBytes), random(27, 600), random(28, 5))
		for cut := 1; cut <= len(m.sealed); cut++ {
			forged := m
			forged.sealed = m.sealed[:len(m.sealed)-cut]
			r.refuse(t, "a cut message", forged)
			forged.sealed = m.sealed[cut:]
			r.refuse(t, "a message cut at its start", forged)
		}
		for _, more := range []int{1, 16, 600} {
			forged := m
			forged.sealed = append(bytes.Clone(m.sealed), make([]byte, more)...)
			r.refuse(t, "a stretched message", forged)
		}
		// The same bytes with the border between additional data and ciphertext
		// elsewhere: only the lengths tell.
		forged := m
		forged.ad, forged.sealed = append(bytes.Clone(m.ad), m.sealed[:11]...), m.sealed[11:]
		r.refuse(t, "a moved border", forged)
		forged.ad, forged.sealed = m.ad[:4], append(m.ad[4:5:5], m.sealed...)
		r.refuse(t, "a moved border", forged)
	})
}
