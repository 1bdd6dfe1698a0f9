package gcm

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/sluice-mesh/sluice/internal/testkit"
)

// recordBytes is more than the longest message of a TLS 1.3 record: 16 KiB, the
// content type, and some.
const recordBytes = 16<<10 + 17

func TestEveryLength(t *testing.T) {
	eachRig(t, func(t *testing.T, r rig) {
		plain, header := random(1, recordBytes), []byte{23, 3, 3, 0, 0}
		for n := 0; n <= recordBytes; n++ {
			if testkit.RaceEnabled && !testkit.Soak() && n > 1100 && n%13 > 0 {
				continue // 13 and 512 have no common factor: every tail comes up
			}
			header[3], header[4] = byte((n+TagBytes)>>8), byte(n+TagBytes)
			r.check(t, r.message(random(uint64(n), NonceBytes), plain[:n], header), 5, n%64)
		}
	})
}

// lengths are those at which some path of the assembly begins or ends.
func lengths(upTo int) []int {
	var all []int
	for _, n := range []int{0, 16, 32, 48, 64, 96, 192, 224, 256, 480, 512, 736, 768, 1024, 1280, 4096, 16384} {
		for d := -1; d <= 1; d++ {
			if n+d >= 0 && n+d <= upTo {
				all = append(all, n+d)
			}
		}
	}
	return all
}

func TestOffsets(t *testing.T) {
	eachRig(t, func(t *testing.T, r rig) {
		for _, n := range lengths(testkit.Scaled(4097, 16385)) {
			m := r.message(random(2, NonceBytes), random(uint64(n), n), random(3, 5))
			for from := range 64 {
				r.check(t, m, from, (from*7+n)%64)
			}
		}
	})
}

func TestAdditionalData(t *testing.T) {
	ads := []int{127, 128, 129, 255, 256, 257, 271, 272, 512, MaxAdditional - 1, MaxAdditional}
	for n := range 81 {
		ads = append(ads, n)
	}
	eachRig(t, func(t *testing.T, r rig) {
		for _, n := range []int{0, 1, 64, 255, 256, 700, 1500} {
			for _, ad := range ads {
				r.check(t, r.message(random(4, NonceBytes), random(5, n), random(6, ad)), 0, 0)
			}
		}
	})
}

// TestLong passes the 16-bit boundary of the counter's lower half and goes to
// the limit.
func TestLong(t *testing.T) {
	eachRig(t, func(t *testing.T, r rig) {
		for _, n := range []int{1<<16 - 1, 1 << 16, 1<<17 + 300, MaxBytes - 257, MaxBytes - 1, MaxBytes} {
			r.check(t, r.message(random(7, NonceBytes), random(8, n), random(9, 5)), 5, 0)
		}
	})
}

// TestRecordsInALoop seals and opens records that lie one behind the other in
// one block, as they travel.
func TestRecordsInALoop(t *testing.T) {
	const records, payload, header = 8, 16 << 10, 5
	eachRig(t, func(t *testing.T, r rig) {
		plain := random(10, records*payload)
		for _, k := range r.keys {
			const size = header + payload + 1 + TagBytes
			block := make([]byte, 0, records*size)
			nonce := random(11, NonceBytes)
			for i := range records {
				nonce[11]++
				block = append(block, 23, 3, 3, (size-header)>>8, (size-header)&0xff)
				ad := block[len(block)-header:]
				block = k.SealRecord(block, nonce, plain[i*payload:][:payload], 23, ad)
			}
			nonce[11] -= records
			for i := range records {
				nonce[11]++
				record := block[i*size:][:size]
				inner, err := k.Open(record[header:header], nonce, record[header:], record[:header])
				if err != nil || !bytes.Equal(inner[:payload], plain[i*payload:][:payload]) || inner[payload] != 23 {
					t.Fatalf("%v: record %d: %v", k.Impl(), i, err)
				}
			}
		}
	})
}

// TestRoom shows where output may lie: exactly on its input or apart from it,
// next to it too; anything else panics before a byte is written.
func TestRoom(t *testing.T) {
	const n = 300
	eachRig(t, func(t *testing.T, r rig) {
		m := r.message(random(12, NonceBytes), random(13, n), random(14, 5))
		for _, k := range r.keys {
			for shift := -(n + 20); shift <= n+20; shift++ {
				block := random(15, 5*n)
				at := 2 * n
				src := block[at : at+n : at+n]
				copy(src, m.plain)
				dst := block[at+shift:][:0]
				apart := shift == 0 || shift+n+TagBytes <= 0 || shift >= n
				before := bytes.Clone(block)
				var got []byte
				panicked := panics(func() { got = k.Seal(dst, m.nonce, src, m.ad) })
				switch {
				case apart && (panicked || !bytes.Equal(got, m.sealed)):
					t.Fatalf("%v: Seal to %d from its input: panicked %v, or other bytes", k.Impl(), shift, panicked)
				case !apart && (!panicked || !bytes.Equal(block, before)):
					t.Fatalf("%v: Seal to %d from its input did not panic before it wrote", k.Impl(), shift)
				}

				block = random(15, 5*n)
				src = block[at : at+n+TagBytes : at+n+TagBytes]
				copy(src, m.sealed)
				dst = block[at+shift:][:0]
				apart = shift == 0 || shift+n <= 0 || shift >= n+TagBytes
				before = bytes.Clone(block)
				panicked = panics(func() { got, _ = k.Open(dst, m.nonce, src, m.ad) })
				switch {
				case apart && (panicked || !bytes.Equal(got, m.plain)):
					t.Fatalf("%v: Open to %d from its input: panicked %v, or other bytes", k.Impl(), shift, panicked)
				case !apart && (!panicked || !bytes.Equal(block, before)):
					t.Fatalf("%v: Open to %d from its input did not panic before it wrote", k.Impl(), shift)
				}
			}
			block := make([]byte, 100)
			if !panics(func() { k.Seal(block[:0], m.nonce, m.plain[:20], block[30:35]) }) {
				t.Errorf("%v: Seal over its additional data did not panic", k.Impl())
			}
			if !panics(func() { _, _ = k.Open(block[:0], m.nonce, m.sealed[:60], block[30:35]) }) {
				t.Errorf("%v: Open over its additional data did not panic", k.Impl())
			}
		}
	})
}

// TestAppend shows that what dst holds stays, and that dst grows when it must.
func TestAppend(t *testing.T) {
	eachRig(t, func(t *testing.T, r rig) {
		m := r.message(random(16, NonceBytes), random(17, 100), nil)
		for _, k := range r.keys {
			for _, room := range []int{0, 115, 116, 400} {
				dst := append(make([]byte, 0, 3+room), "abc"...)
				if got := k.Seal(dst, m.nonce, m.plain, nil); string(got) != "abc"+string(m.sealed) {
					t.Errorf("%v: Seal with room for %d: other bytes", k.Impl(), room)
				}
				dst = append(make([]byte, 0, 3+room), "abc"...)
				if got, err := k.Open(dst, m.nonce, m.sealed, nil); err != nil || string(got) != "abc"+string(m.plain) {
					t.Errorf("%v: Open with room for %d: %v", k.Impl(), room, err)
				}
			}
		}
	})
}

// panics reports whether fn does, with a text of this package.
func panics(fn func()) (did bool) {
	defer func() {
		if p := recover(); p != nil {
			did = true
			if s := fmt.Sprint(p); len(s) < 5 || s[:4] != "gcm:" {
				panic(p)
			}
		}
	}()
	fn()
	return false
}
