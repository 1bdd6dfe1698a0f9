package sys_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

func TestVec(t *testing.T) {
	testkit.NoLeaks(t)
	split := func(b []byte, each int) (parts [][]byte) {
		for len(b) > each {
			parts = append(parts, b[:each], nil) // empty ones are passed over
			b = b[each:]
		}
		return append(parts, b)
	}
	want := []byte("the quick brown fox jumps over the lazy dog, and over the fence behind it")
	var v sys.Vec
	far, near := testkit.TCPPair(t, testkit.TCPOptions{})
	for _, each := range []int{1, 3, 64, 100} {
		parts := split(want, each)
		full := min(len(want), 64*each) // what fits into 64 buffers
		n, err := v.Writev(near, parts)
		if n != full || err != nil {
			t.Fatalf("buffers of %d: wrote %d, %v; want %d", each, n, err, full)
		}
		got := make([]byte, full)
		if _, err := io.ReadFull(far, got); err != nil || !bytes.Equal(got, want[:full]) {
			t.Errorf("buffers of %d: far got %q, %v", each, got, err)
		}
		if _, err := far.Write(want); err != nil {
			t.Fatal(err)
		}
		got = make([]byte, len(want))
		for have := 0; have < len(want); have += n {
			waitFor(t, near, sys.Readable)
			if n, err = v.Readv(near, split(got[have:], each)); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("buffers of %d: read %q", each, got)
		}
	}
	if n, err := v.Writev(near, [][]byte{nil, {}}); n != 0 || err != nil {
		t.Errorf("nothing to write: %d, %v", n, err)
	}
	if _, err := v.Readv(near, [][]byte{make([]byte, 1)}); err != sys.EAGAIN {
		t.Errorf("nothing to read: %v; want EAGAIN", err)
	}
}

// EAGAIN from splice means an empty source or a full target; the caller knows.
func TestSplice(t *testing.T) {
	testkit.NoLeaks(t)
	far, near := testkit.TCPPair(t, testkit.TCPOptions{})
	var r, w sys.FD
	defer r.Close()
	defer w.Close()
	size, err := sys.Pipe(&r, &w, 256<<10)
	if err != nil || size < 4096 {
		t.Fatalf("pipe of %d bytes, %v", size, err)
	}
	if again, err := sys.PipeSize(&w); err != nil || again != size {
		t.Errorf("the pipe has room for %d, %v; said %d before", again, err, size)
	}
	if _, err := sys.Splice(near, &w, size); err != sys.EAGAIN {
		t.Errorf("splice from an empty socket: %v; want EAGAIN", err)
	}
	if _, err := sys.Splice(&r, near, size); err != sys.EAGAIN {
		t.Errorf("splice from an empty pipe: %v; want EAGAIN", err)
	}
	far.Write([]byte("there and back"))
	waitFor(t, near, sys.Readable)
	if n, err := sys.Splice(near, &w, size); n != 14 || err != nil {
		t.Fatalf("splice into the pipe: %d, %v", n, err)
	}
	if n, err := sys.Splice(&r, near, 14); n != 14 || err != nil {
		t.Fatalf("splice out of the pipe: %d, %v", n, err)
	}
	got := make([]byte, 14)
	if _, err := io.ReadFull(far, got); err != nil || string(got) != "there and back" {
		t.Errorf("far got %q, %v", got, err)
	}
	far.CloseWrite()
	waitFor(t, near, sys.PeerShut)
	if n, err := sys.Splice(near, &w, size); n != 0 || err != nil {
		t.Errorf("splice behind a FIN: %d, %v; want 0", n, err)
	}
}
