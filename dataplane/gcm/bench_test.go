package gcm

import (
	"crypto/cipher"
	"fmt"
	"slices"
	"testing"
	"time"
)

// A lap is one way to do the work that is measured.
type lap struct {
	name string
	run  func()
	took []float64 // nanoseconds per run, one of each round
}

// race runs the laps in turn, round after round, so that whatever else the
// machine does hits all of them, and reports for each the median of its speed,
// and how many times as fast as the last one it is. Compare nothing but what
// stands in one line: absolutes belong to the minute.
func race(b *testing.B, size int, laps []*lap) {
	reps := max(1, 100_000/(size+300))
	rounds := 0
	for b.Loop() {
		for _, l := range laps {
			start := time.Now()
			for range reps {
				l.run()
			}
			l.took = append(l.took, float64(time.Since(start).Nanoseconds())/float64(reps))
		}
		rounds++
	}
	b.ReportMetric(0, "ns/op") // of a round: says nothing
	base := median(laps[len(laps)-1].took)
	for i, l := range laps {
		ns := median(l.took)
		b.ReportMetric(float64(size)/ns, l.name+"-GB/s")
		if i < len(laps)-1 {
			b.ReportMetric(base/ns, l.name+"-x")
		}
	}
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// benchShapes are a record of so many bytes, and how many of them in a row.
var benchShapes = []struct{ size, records int }{
	{64, 1}, {256, 1}, {1 << 10, 1}, {4 << 10, 1}, {16 << 10, 1}, {16 << 10, 8},
}

func eachShape(b *testing.B, fn func(b *testing.B, r rig, size, records int)) {
	for _, keySize := range []int{16, 32} {
		r := newRig(b, random(80, keySize))
		for _, s := range benchShapes {
			b.Run(fmt.Sprintf("%s/%dx%d", r.name, s.records, s.size), func(b *testing.B) {
				fn(b, r, s.size, s.records)
			})
		}
	}
}

// ring is how many records take turns, so that none is worked on again while
// its bytes are still on their way from the CPU to the cache: no record layer
// does that.
func ring(size, records int) int { return max(records, 16<<10/size) }

// aeads returns what is raced, crypto/cipher itself last.
func (r rig) aeads() (names []string, aeads []cipher.AEAD) {
	for _, k := range r.keys {
		if k.Impl() != Generic {
			names, aeads = append(names, k.Impl().String()), append(aeads, k)
		}
	}
	return append(names, "crypto/cipher"), append(aeads, r.ref)
}

// BenchmarkSeal seals records in place, as they lie behind their headers.
func BenchmarkSeal(b *testing.B) {
	eachShape(b, func(b *testing.B, r rig, size, records int) {
		stride := 5 + size + TagBytes
		nonce := random(81, NonceBytes)
		var laps []*lap
		names, aeads := r.aeads()
		for i, a := range aeads {
			block, at := random(82, ring(size, records)*stride), 0
			laps = append(laps, &lap{name: names[i], run: func() {
				for range records {
					at = (at + stride) % len(block)
					record := block[at:][:stride]
					a.Seal(record[5:5], nonce, record[5:5+size], record[:5])
				}
			}})
		}
		race(b, records*size, laps)
	})
}

// BenchmarkSealApart seals from one block to another with the content type
// behind the data; crypto/cipher has to copy first.
func BenchmarkSealApart(b *testing.B) {
	eachShape(b, func(b *testing.B, r rig, size, records int) {
		stride := 5 + size + 1 + TagBytes
		nonce := random(83, NonceBytes)
		plain := random(84, size)
		var laps []*lap
		for _, k := range r.keys {
			if k.Impl() == Generic {
				continue
			}
			block, at := make([]byte, ring(size, records)*stride), 0
			laps = append(laps, &lap{name: k.Impl().String(), run: func() {
				for range records {
					at = (at + stride) % len(block)
					record := block[at:][:stride]
					k.SealRecord(record[5:5], nonce, plain, 23, record[:5])
				}
			}})
		}
		block, at := make([]byte, ring(size, records)*stride), 0
		laps = append(laps, &lap{name: "crypto/cipher", run: func() {
			for range records {
				at = (at + stride) % len(block)
				record := block[at:][:stride]
				copy(record[5:], plain)
				record[5+size] = 23
				r.ref.Seal(record[5:5], nonce, record[5:5+size+1], record[:5])
			}
		}})
		race(b, records*size, laps)
	})
}

// BenchmarkOpen opens records from one block to another: in place they could
// be opened only once.
func BenchmarkOpen(b *testing.B) {
	eachShape(b, func(b *testing.B, r rig, size, records int) {
		stride := 5 + size + TagBytes
		nonce := random(85, NonceBytes)
		block := random(86, ring(size, records)*stride)
		out := make([]byte, len(block))
		for at := 0; at < len(block); at += stride {
			record := block[at:][:stride]
			r.ref.Seal(record[5:5], nonce, record[5:5+size], record[:5])
		}
		var laps []*lap
		names, aeads := r.aeads()
		for i, a := range aeads {
			at := 0
			laps = append(laps, &lap{name: names[i], run: func() {
				for range records {
					at = (at + stride) % len(block)
					record := block[at:][:stride]
					if _, err := a.Open(out[at+5:][:0], nonce, record[5:], record[:5]); err != nil {
						b.Fatal(err)
					}
				}
			}})
		}
		race(b, records*size, laps)
	})
}

// BenchmarkNew makes and destroys a key.
func BenchmarkNew(b *testing.B) {
	for _, impl := range Impls() {
		for _, size := range []int{16, 32} {
			b.Run(fmt.Sprintf("%v/AES-%d", impl, 8*size), func(b *testing.B) {
				key := random(87, size)
				b.ReportAllocs()
				for b.Loop() {
					k, err := New(key, impl)
					if err != nil {
						b.Fatal(err)
					}
					k.Destroy()
				}
			})
		}
	}
}
