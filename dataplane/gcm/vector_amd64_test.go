package gcm

import (
	"bytes"
	"crypto/aes"
	"testing"
	"unsafe"
)

// vectorKeys returns key in each vector implementation; none on a CPU that can
// run none, as TestImplsAreAllThatTheCPUHas checks.
func vectorKeys(t *testing.T, key []byte) []*Key {
	t.Helper()
	var keys []*Key
	for _, k := range newRig(t, key).keys {
		if k.Impl() != Generic {
			keys = append(keys, k)
		}
	}
	return keys
}

// TestHashKey checks the key schedule against crypto/aes by what it is for.
func TestHashKey(t *testing.T) {
	for seed := range uint64(200) {
		key := random(seed, 16+16*int(seed%2))
		block, err := aes.NewCipher(key)
		if err != nil {
			t.Fatal(err)
		}
		var want [16]byte
		block.Encrypt(want[:], want[:])
		for _, k := range vectorKeys(t, key) {
			if k.vector.block.hashKey != want {
				t.Fatalf("%v: key %x: hash key %x; want %x", k.Impl(), key, k.vector.block.hashKey, want)
			}
		}
	}
}

// TestDestroyOverwrites looks at a key's memory before and after.
func TestDestroyOverwrites(t *testing.T) {
	for _, size := range []int{16, 32} {
		key := random(60, size)
		for _, k := range vectorKeys(t, key) {
			b := unsafe.Slice((*byte)(unsafe.Pointer(k.vector.block)), unsafe.Sizeof(block{}))
			if !bytes.Contains(b, key[:16]) {
				t.Fatalf("%v: the key is not where this test looks for it", k.Impl())
			}
			k.Destroy()
			if !isAll(b, 0) {
				t.Errorf("%v: Destroy left %x", k.Impl(), b)
			}
		}
	}
}

// TestKeyBudget bounds what a key costs: a tunnel has two.
func TestKeyBudget(t *testing.T) {
	const blockBytes, keyBytes = 2304, 48
	if got := unsafe.Sizeof(block{}); got > blockBytes {
		t.Errorf("a key's block is %d bytes; budget %d", got, blockBytes)
	}
	if got := unsafe.Sizeof(Key{}); got > keyBytes {
		t.Errorf("a Key is %d bytes; budget %d", got, keyBytes)
	}
}
