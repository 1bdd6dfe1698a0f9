package gcm

import (
	"bytes"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluice-mesh/sluice/internal/testkit"
)

// TestUnderCollection works on buffers on the stack and in the heap while the
// collector runs without a pause and stacks grow and move.
func TestUnderCollection(t *testing.T) {
	testkit.NoLeaks(t)
	eachRig(t, func(t *testing.T, r rig) {
		m := r.message(random(40, NonceBytes), random(41, 3000), random(42, 5))
		var wg sync.WaitGroup
		var stop atomic.Bool
		for _, k := range r.keys {
			wg.Go(func() {
				for !stop.Load() {
					var wrong sync.WaitGroup
					wrong.Go(func() { // a fresh, small stack that has to grow
						if !onStack(k, m, 8) {
							t.Errorf("%v: wrong bytes while the collector ran", k.Impl())
							stop.Store(true)
						}
					})
					wrong.Wait()
				}
			})
		}
		for range testkit.Scaled(60, 2000) {
			runtime.GC()
		}
		stop.Store(true)
		wg.Wait()
	})
}

// onStack seals and opens m in buffers of its own frame, below depth others.
func onStack(k *Key, m message, depth int) bool {
	if depth > 0 {
		var frame [700]byte
		frame[depth] = 1
		return onStack(k, m, depth-1) && frame[depth] == 1
	}
	var sealed [3000 + TagBytes]byte
	var nonce [NonceBytes]byte
	copy(nonce[:], m.nonce)
	if !bytes.Equal(k.Seal(sealed[:0], nonce[:], m.plain, m.ad), m.sealed) {
		return false
	}
	plain, err := k.Open(sealed[:0], nonce[:], sealed[:], m.ad)
	return err == nil && bytes.Equal(plain, m.plain)
}

// TestSharedKey uses one key from many goroutines: nothing in it changes.
func TestSharedKey(t *testing.T) {
	testkit.NoLeaks(t)
	eachRig(t, func(t *testing.T, r rig) {
		var wg sync.WaitGroup
		for _, k := range r.keys {
			for g := range 4 {
				wg.Go(func() {
					m := r.message(random(uint64(g), NonceBytes), random(43, 200*g+17), nil)
					for range 300 {
						sealed := k.Seal(nil, m.nonce, m.plain, nil)
						plain, err := k.Open(nil, m.nonce, sealed, nil)
						if err != nil || !bytes.Equal(plain, m.plain) || !bytes.Equal(sealed, m.sealed) {
							t.Errorf("%v: wrong bytes with four goroutines: %v", k.Impl(), err)
							return
						}
					}
				})
			}
		}
		wg.Wait()
	})
}
