package tlsrec

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"unsafe"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/gcm"
)

// FuzzState decodes anything, and wants what was taken to encode to the same bytes
// and to make a Conn that is in that state.
func FuzzState(f *testing.F) {
	s := State{Role: Client, Suite: AES256GCM, message: []byte{4, 0, 0, 200, 1}, owe: oweRequest, asked: true, idle: 3, Unopened: []byte("part")}
	f.Add(s.Append(nil))
	f.Fuzz(func(t *testing.T, in []byte) {
		d := flow.NewDecoder(in)
		var s State
		if s.Decode(d); d.Err() != nil {
			if !errors.Is(d.Err(), flow.ErrState) {
				t.Fatalf("error: %v", d.Err())
			}
			if s.Read.Secret != [maxSecretLen]byte{} || s.Write.Secret != [maxSecretLen]byte{} {
				t.Fatal("secrets of a refused state are kept")
			}
			return
		}
		b := s.Append(nil)
		var again State
		d = flow.NewDecoder(b)
		if again.Decode(d); d.Err() != nil || !bytes.Equal(again.Append(nil), b) {
			t.Fatalf("%x became %x, %v", b, again.Append(nil), d.Err())
		}
		c, err := NewConn(&s, gcm.Auto)
		if err != nil {
			t.Fatalf("no connection from %v: %v", s, err)
		}
		defer c.Destroy()
		c.Open(bytes.Clone(s.Unopened), make([][]byte, 0, 8))
		if c, err = NewConn(&s, gcm.Auto); err != nil {
			t.Fatal(err)
		}
		st := c.Freeze(s.Unopened)
		if !bytes.Equal(st.Append(nil), b) {
			t.Fatalf("state %x of a connection from %x", st.Append(nil), b)
		}
	})
}

// FuzzOpen opens anything: records that authenticate with any content, changed at
// will. Open never goes back, never beyond, and lends only what is in the block.
func FuzzOpen(f *testing.F) {
	f.Add(uint8(0), []byte("inner\x17"), []byte{0, 0}, uint16(0), byte(0), uint16(7))
	f.Add(uint8(1), []byte{24, 0, 0, 1, 1, 22}, []byte("x\x17\x00"), uint16(0), byte(0), uint16(30))
	f.Add(uint8(2), []byte{1, 0, 21}, []byte{}, uint16(3), byte(1), uint16(3))
	f.Fuzz(func(t *testing.T, which uint8, first, second []byte, at uint16, change byte, cut uint16) {
		if len(first) > MaxPlaintext+1 || len(second) > MaxPlaintext+1 {
			return
		}
		client, server := states(t, Suites()[int(which)%3])
		c, r := newConn(t, &client), writer(&server)
		b := joined(r.inner(first), r.inner(second))
		b[int(at)%len(b)] ^= change
		done := 0
		for _, end := range []int{min(int(cut), len(b)), len(b)} {
			for {
				payloads, n, err := c.Open(b[done:end], make([][]byte, 0, 1))
				if n < 0 || n > end-done {
					t.Fatalf("%d of %d bytes are done", n, end-done)
				}
				for _, p := range payloads {
					off := uintptr(unsafe.Pointer(unsafe.SliceData(p))) - uintptr(unsafe.Pointer(unsafe.SliceData(b)))
					if len(p) == 0 || off < uintptr(done) || off+uintptr(len(p)) > uintptr(done+n) {
						t.Fatalf("payload of %d bytes at %d; records are %d to %d", len(p), off, done, done+n)
					}
				}
				done += n
				if err != nil {
					if _, again, twice := c.Open(b, nil); !errors.Is(twice, err) || !errors.Is(err, io.EOF) && again != 0 {
						t.Fatalf("error was not for good: %v, then %v", err, twice)
					}
					return
				}
				if n == 0 {
					break
				}
			}
		}
		if missing := Missing(b[done:]); missing == 0 && done < len(b) {
			t.Fatalf("stopped at a whole record at %d of %d", done, len(b))
		}
	})
}

// FuzzHello wants a ClientHello that arrives in pieces judged as the whole one.
func FuzzHello(f *testing.F) {
	f.Add([]byte{22, 3, 1, 0, 5, 1, 0, 0, 1, 9}, uint8(1))
	f.Add([]byte{22, 3, 1, 0, 1, 1, 22, 3, 3, 0, 5, 0, 0, 2, 9, 9}, uint8(3))
	f.Add([]byte("GET / HTTP/1.1\r\n"), uint8(2))
	f.Fuzz(func(t *testing.T, in []byte, step uint8) {
		var once hello
		want, wantErr := once.whole(in)
		var h hello
		for n := 0; ; n = min(len(in), n+1+int(step)) {
			got, err := h.whole(in[:n])
			if h.at > n || h.at < 0 {
				t.Fatalf("looked at %d of %d bytes", h.at, n)
			}
			if got || err != nil || n == len(in) {
				if got != want || (err == nil) != (wantErr == nil) {
					t.Fatalf("in pieces %v, %v; at once %v, %v", got, err, want, wantErr)
				}
				return
			}
		}
	})
}
