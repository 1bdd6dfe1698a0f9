package tlsrec

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/sluice-mesh/sluice/dataplane/gcm"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// Budgets. Raise one only in the change that spends it, and say what it bought.
const (
	recordAllocs   = 0   // heap allocations per record, sealed or opened
	connBytes      = 400 // without the expanded keys, 2.3 KiB each with vectors
	handshakeBytes = 512 // of a connection that has sent nothing
)

// TestBudgetRecords counts allocations for all suites, ways and sizes.
func TestBudgetRecords(t *testing.T) {
	if testkit.RaceEnabled {
		t.Skip("allocation counts differ under the race detector")
	}
	for _, s := range Suites() {
		for _, n := range []int{1, 1000, MaxPlaintext} {
			client, server := states(t, s)
			from, to := newConn(t, &client), newConn(t, &server)
			src, rec := random(n), make([]byte, n+Overhead)
			out := make([][]byte, 0, 4)
			for name, seal := range map[string]func() error{
				"Seal":     func() error { _, err := from.Seal(rec, n); return err },
				"SealEach": func() error { return from.SealEach(rec, len(rec)) },
				"SealTo":   func() error { _, err := from.SealTo(rec, src); return err },
			} {
				got := testing.AllocsPerRun(100, func() {
					if err := seal(); err != nil {
						t.Fatal(err)
					}
					payloads, _, err := to.Open(rec, out)
					if err != nil || len(payloads) != 1 {
						t.Fatalf("%d payloads, %v", len(payloads), err)
					}
				})
				if got > recordAllocs {
					t.Errorf("%v, %s, %d bytes: %v allocations; budget %d", s, name, n, got, recordAllocs)
				}
			}
		}
	}
}

// TestBudgetSizes wants tunnels and half handshakes small.
func TestBudgetSizes(t *testing.T) {
	if got := unsafe.Sizeof(Conn{}); got > connBytes {
		t.Errorf("Conn is %d bytes; budget %d", got, connBytes)
	}
	if got := unsafe.Sizeof(Handshake{}); got > handshakeBytes {
		t.Errorf("Handshake is %d bytes; budget %d", got, handshakeBytes)
	}
}

// BenchmarkRecord seals and opens records in place and from source to destination.
func BenchmarkRecord(b *testing.B) {
	for _, s := range Suites() {
		for _, n := range []int{64, 1 << 10, 4 << 10, MaxPlaintext} {
			client, server := states(b, s)
			b.Run(fmt.Sprintf("seal/%v/%d", s, n), func(b *testing.B) {
				c := newConn(b, &client)
				rec := make([]byte, n+Overhead)
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := c.Seal(rec, n); err != nil {
						b.Fatal(err)
					}
					c.write.seq = 0 // far from the limit
				}
			})
			b.Run(fmt.Sprintf("seal-to/%v/%d", s, n), func(b *testing.B) {
				c := newConn(b, &client)
				src, dst := make([]byte, n), make([]byte, n+Overhead)
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := c.SealTo(dst, src); err != nil {
						b.Fatal(err)
					}
					c.write.seq = 0
				}
			})
			// A copy of the record is part of it: opening is in place.
			b.Run(fmt.Sprintf("copy-open/%v/%d", s, n), func(b *testing.B) {
				c := newConn(b, &server)
				wire := sealed(b, newConn(b, &client), make([]byte, n))
				rec, out := make([]byte, len(wire)), make([][]byte, 0, 1)
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for b.Loop() {
					copy(rec, wire)
					c.read.seq = 0
					if payloads, _, err := c.Open(rec, out); err != nil || len(payloads) != 1 {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkConn makes a connection's keys.
func BenchmarkConn(b *testing.B) {
	for _, s := range Suites() {
		b.Run(s.String(), func(b *testing.B) {
			client, _ := states(b, s)
			b.ReportAllocs()
			for b.Loop() {
				c, err := NewConn(&client, gcm.Auto)
				if err != nil {
					b.Fatal(err)
				}
				c.Destroy()
			}
		})
	}
}

// BenchmarkHandshake is both sides of a handshake over loopback, with ECDSA
// certificates on both.
func BenchmarkHandshake(b *testing.B) {
	g, cfg := newGate(b, Limits{PanicEnds: true}), config(b)
	b.ReportAllocs()
	for b.Loop() {
		x, y := loopback(b)
		done := make(chan shaken, 1)
		go func() {
			r, err := shake(g, Server, cfg, y)
			done <- shaken{r, err}
		}()
		if _, err := shake(g, Client, cfg, x); err != nil {
			b.Fatal(err)
		}
		if s := <-done; s.err != nil {
			b.Fatal(s.err)
		}
		x.Close()
		y.Close()
	}
}
