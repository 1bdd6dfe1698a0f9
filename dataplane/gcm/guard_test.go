package gcm

import (
	"bytes"
	"os"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// guarded returns at least n bytes between two pages that nobody may touch. A
// byte read or written outside of them ends the test binary.
func guarded(t *testing.T, n int) []byte {
	t.Helper()
	page := os.Getpagesize()
	size := (n + page - 1) / page * page
	all, err := sys.MapMemory(size + 2*page)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{all[:page], all[page+size:]} {
		if err := sys.ProtectMemory(b); err != nil {
			t.Fatal(err)
		}
	}
	return all[page : page+size : page+size]
}

// TestGuardPages puts each buffer against the end and against the start of
// memory that may be touched.
func TestGuardPages(t *testing.T) {
	const most = 16<<10 + 1
	in, out := guarded(t, most+TagBytes), guarded(t, most+TagBytes)
	adRoom, nonceRoom := guarded(t, 40), guarded(t, NonceBytes)
	var sizes []int
	for n := range testkit.Scaled(1600, most) {
		sizes = append(sizes, n)
	}
	sizes = append(sizes, lengths(most)...)
	ends := map[string]func(b []byte, n int) []byte{
		"end":   func(b []byte, n int) []byte { return b[len(b)-n:] },
		"start": func(b []byte, n int) []byte { return b[:n:n] },
	}
	eachRig(t, func(t *testing.T, r rig) {
		plain, nonceText := random(30, most), random(31, NonceBytes)
		for where, place := range ends {
			for _, n := range sizes {
				nonce, ad := place(nonceRoom, NonceBytes), place(adRoom, n%40)
				copy(nonce, nonceText)
				copy(ad, random(32, len(ad)))
				m := r.message(nonce, plain[:n], ad)
				for _, k := range r.keys {
					src, dst := place(in, n), place(out, n+TagBytes)
					copy(src, m.plain)
					if got := k.Seal(dst[:0], nonce, src, ad); !bytes.Equal(got, m.sealed) {
						t.Fatalf("%v: Seal apart, %d bytes at the %s", k.Impl(), n, where)
					}
					if n > 0 {
						clear(dst)
						if got := k.SealRecord(dst[:0], nonce, place(in, n)[:n-1], m.plain[n-1], ad); !bytes.Equal(got, m.sealed) {
							t.Fatalf("%v: SealRecord apart, %d bytes at the %s", k.Impl(), n, where)
						}
					}
					clear(src)
					if got, err := k.Open(src[:0], nonce, dst, ad); err != nil || !bytes.Equal(got, m.plain) {
						t.Fatalf("%v: Open apart, %d bytes at the %s: %v", k.Impl(), n, where, err)
					}
					if got, err := k.Open(dst[:0], nonce, dst, ad); err != nil || !bytes.Equal(got, m.plain) {
						t.Fatalf("%v: Open in place, %d bytes at the %s: %v", k.Impl(), n, where, err)
					}
					if got := k.Seal(dst[:0], nonce, dst[:n], ad); !bytes.Equal(got, m.sealed) {
						t.Fatalf("%v: Seal in place, %d bytes at the %s", k.Impl(), n, where)
					}
				}
			}
		}
	})
}
