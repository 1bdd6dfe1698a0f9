package gcm

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"fmt"
	"math/rand/v2"
	"testing"
)

// A rig is one key in crypto/cipher and in every implementation that this CPU
// can run.
type rig struct {
	name string
	ref  cipher.AEAD
	keys []*Key
}

// newRig makes a rig of an AES key.
func newRig(t testing.TB, key []byte) rig {
	t.Helper()
	block, err := aes.NewCipher(key)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	r := rig{name: fmt.Sprintf("AES-%d", 8*len(key)), ref: ref}
	for _, impl := range Impls() {
		k, err := New(key, impl)
		if err != nil {
			t.Fatal(err)
		}
		r.keys = append(r.keys, k)
	}
	return r
}

// eachRig runs fn as a subtest for a random key of each size.
func eachRig(t *testing.T, fn func(t *testing.T, r rig)) {
	t.Helper()
	for _, size := range []int{16, 32} {
		r := newRig(t, random(uint64(size), size))
		t.Run(r.name, func(t *testing.T) { fn(t, r) })
	}
}

// random returns n bytes that depend on seed only.
func random(seed uint64, n int) []byte {
	b := make([]byte, n)
	s := rand.NewPCG(seed, 7)
	for i := range b {
		b[i] = byte(s.Uint64())
	}
	return b
}

// A message is what is sealed, and what crypto/cipher makes of it.
type message struct {
	nonce, plain, ad, sealed []byte
}

func (r rig) message(nonce, plain, ad []byte) message {
	return message{nonce, plain, ad, r.ref.Seal(nil, nonce, plain, ad)}
}

// A canary surrounds a buffer; whoever writes past the buffer's ends kills it.
const canaryBytes = 80

// cage returns room for n bytes, off bytes after a 64-byte boundary (the heap
// aligns what is that long), and a function that reports whether anything
// outside of the room was written to.
func cage(off, n int) (room []byte, intact func() bool) {
	all := bytes.Repeat([]byte{0xc5}, 128+off+n+canaryBytes)
	start := 128 + off
	return all[start : start+n : start+n], func() bool {
		return isAll(all[:start], 0xc5) && isAll(all[start+n:], 0xc5)
	}
}

// isAll reports whether each byte of b is c.
func isAll(b []byte, c byte) bool {
	return bytes.Count(b, []byte{c}) == len(b)
}

// check seals and opens m in every way that a record layer does: in place and
// apart, with a trailer and without, at the offsets from and to.
func (r rig) check(t *testing.T, m message, from, to int) {
	t.Helper()
	n := len(m.plain)
	for _, k := range r.keys {
		fail := func(what string, args ...any) {
			t.Helper()
			t.Fatalf("%v, %d bytes, %d of additional data, offsets %d and %d: %s",
				k.Impl(), n, len(m.ad), from, to, fmt.Sprintf(what, args...))
		}

		in, inIntact := cage(from, n)
		copy(in, m.plain)
		out, outIntact := cage(to, n+TagBytes)
		if got := k.Seal(out[:0], m.nonce, in, m.ad); !bytes.Equal(got, m.sealed) || &got[0] != &out[0] {
			fail("Seal apart gives other bytes than crypto/cipher")
		}
		if !bytes.Equal(in, m.plain) || !inIntact() || !outIntact() {
			fail("Seal apart wrote outside of its output")
		}

		opened, openedIntact := cage(from, n)
		got, err := k.Open(opened[:0], m.nonce, out, m.ad)
		if err != nil || !bytes.Equal(got, m.plain) {
			fail("Open apart: %v", err)
		}
		if !bytes.Equal(out, m.sealed) || !openedIntact() || !outIntact() {
			fail("Open apart wrote outside of its output")
		}

		if n > 0 {
			clear(out)
			r := k.SealRecord(out[:0], m.nonce, in[:n-1], m.plain[n-1], m.ad)
			if !bytes.Equal(r, m.sealed) || !bytes.Equal(in, m.plain) || !inIntact() || !outIntact() {
				fail("SealRecord apart gives other bytes than crypto/cipher, or wrote outside")
			}
		}

		room, roomIntact := cage(from, n+TagBytes)
		copy(room, m.plain)
		k.Seal(room[:0], m.nonce, room[:n], m.ad)
		if !bytes.Equal(room, m.sealed) || !roomIntact() {
			fail("Seal in place gives other bytes than crypto/cipher, or wrote outside")
		}
		if got, err := k.Open(room[:0], m.nonce, room, m.ad); err != nil || !bytes.Equal(got, m.plain) || !roomIntact() {
			fail("Open in place: %v", err)
		}
		if !bytes.Equal(room[n:], m.sealed[n:]) {
			fail("Open in place changed the tag")
		}
		if n > 0 {
			room[n-1] = ^m.plain[n-1] // the trailer is not in memory
			k.SealRecord(room[:0], m.nonce, room[:n-1], m.plain[n-1], m.ad)
			if !bytes.Equal(room, m.sealed) || !roomIntact() {
				fail("SealRecord in place gives other bytes than crypto/cipher, or wrote outside")
			}
		}
	}
}
