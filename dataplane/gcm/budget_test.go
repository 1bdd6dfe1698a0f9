package gcm

import "testing"

// TestAllocationBudget: sealing and opening with room allocate nothing.
func TestAllocationBudget(t *testing.T) {
	eachRig(t, func(t *testing.T, r rig) {
		m := r.message(random(70, NonceBytes), random(71, 1000), random(72, 5))
		room := make([]byte, 0, 2000)
		for _, k := range r.keys {
			if got := testing.AllocsPerRun(100, func() { k.Seal(room, m.nonce, m.plain, m.ad) }); got > 0 {
				t.Errorf("%v: %v allocations per Seal; budget 0", k.Impl(), got)
			}
			if got := testing.AllocsPerRun(100, func() { k.SealRecord(room, m.nonce, m.plain, 23, m.ad) }); got > 0 {
				t.Errorf("%v: %v allocations per SealRecord; budget 0", k.Impl(), got)
			}
			if got := testing.AllocsPerRun(100, func() {
				if _, err := k.Open(room, m.nonce, m.sealed, m.ad); err != nil {
					t.Fatal(err)
				}
			}); got > 0 {
				t.Errorf("%v: %v allocations per Open; budget 0", k.Impl(), got)
			}
		}
	})
}
