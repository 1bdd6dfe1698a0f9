package testkit_test

import (
	"errors"
	"io"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

func TestTCPPair(t *testing.T) {
	testkit.NoLeaks(t)
	far, near := testkit.TCPPair(t, testkit.TCPOptions{FarReadBuffer: 4096, NearBuffers: 8192})
	if name, err := sys.Congestion(near); err != nil || name != "cubic" && name != "reno" {
		t.Errorf("near runs %s, %v; want no pacing", name, err)
	}
	if _, err := sys.Read(near, make([]byte, 1)); !errors.Is(err, sys.EAGAIN) {
		t.Errorf("read of nothing: %v; want EAGAIN", err)
	}
	if n, err := sys.Send(near, []byte("hello")); n != 5 || err != nil {
		t.Fatalf("send: %d, %v", n, err)
	}
	near.Close()
	if got, err := io.ReadAll(far); string(got) != "hello" || err != nil {
		t.Errorf("far got %q, %v", got, err)
	}
	far, near = testkit.TCPPair(t, testkit.TCPOptions{})
	testkit.ResetTCP(t, far)
	if _, err := sys.Read(near, make([]byte, 1)); !errors.Is(err, sys.ECONNRESET) {
		t.Errorf("read after a reset: %v; want ECONNRESET", err)
	}
}
