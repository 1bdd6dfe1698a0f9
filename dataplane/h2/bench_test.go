package h2

import (
	"bytes"
	"io"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// recordBytes is what a TLS record brings at most.
const recordBytes = 16 << 10

// read reads all of the pieces again and again.
func readAll(b *testing.B, r *Reader, cut [][]byte) (payload int) {
	for _, p := range cut {
		for {
			ev, rest, err := r.Next(p)
			if err != nil {
				b.Fatal(err)
			}
			p = rest
			if ev.Kind == KindNone {
				break
			}
			payload += len(ev.Data)
		}
	}
	return payload
}

// BenchmarkReader reads DATA frames of several lengths out of records; Framer is
// x/net's on the same bytes.
func BenchmarkReader(b *testing.B) {
	for _, size := range []struct {
		name  string
		bytes int
	}{{"100B", 100}, {"16KiB", 16<<10 - HeadBytes}, {"256KiB", 256<<10 - HeadBytes}} {
		var in []byte
		for len(in) < 1<<20 {
			in = AppendData(in, 1, make([]byte, size.bytes), false)
		}
		b.Run("ours/"+size.name, func(b *testing.B) {
			r := NewReader(Client, testFrame, testBlock)
			told(&r, hello[Client])
			cut := pieces(in, recordBytes)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				readAll(b, &r, cut)
			}
		})
		b.Run("framer/"+size.name, func(b *testing.B) {
			var src bytes.Reader
			fr := http2.NewFramer(io.Discard, &src)
			fr.SetReuseFrames()
			fr.SetMaxReadFrameSize(testFrame)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				src.Reset(in)
				for src.Len() > 0 {
					if _, err := fr.ReadFrame(); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// BenchmarkConnect reads the field section of a request; hpack is x/net's decoder on
// the same bytes, which checks nothing.
func BenchmarkConnect(b *testing.B) {
	in := block(b, connect, target, "baggage: k8s.cluster.name=one,k8s.namespace.name=shop,k8s.deployment.name=cart,service.name=cart,service.version=v1",
		"forwarded: for=\"192.0.2.9:55555\"", "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
	b.Run("ours", func(b *testing.B) {
		d := NewDecoder(testBlock)
		ev := headers(in)
		d.fields.update = false
		var r Request
		b.ReportAllocs()
		for b.Loop() {
			if err := d.Request(ev, &r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("hpack", func(b *testing.B) {
		fields := 0
		d := hpack.NewDecoder(0, func(hpack.HeaderField) { fields++ })
		b.ReportAllocs()
		for b.Loop() {
			if _, err := d.Write(in); err != nil {
				b.Fatal(err)
			}
			if err := d.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkFreeze freezes and thaws what one tunnel with one stream has.
func BenchmarkFreeze(b *testing.B) {
	r := NewReader(Server, testFrame, testBlock)
	told(&r, sample(b)[:130])
	d, ids, s := NewDecoder(testBlock), NewStreams(Server, 200), NewStream(1, 5, 5)
	var state []byte
	b.ReportAllocs()
	for b.Loop() {
		state = r.Freeze(state[:0])
		if err := r.Thaw(state); err != nil {
			b.Fatal(err)
		}
		state = d.Freeze(state[:0])
		if err := d.Thaw(state); err != nil {
			b.Fatal(err)
		}
		state = ids.Freeze(state[:0])
		if err := ids.Thaw(state); err != nil {
			b.Fatal(err)
		}
		state = s.Freeze(state[:0])
		if err := s.Thaw(state); err != nil {
			b.Fatal(err)
		}
	}
}
