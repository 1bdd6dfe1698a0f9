package relay_test

import (
	"io"
	"net"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/buf"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/relay"
	"github.com/sluice-mesh/sluice/dataplane/splice"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

// sendUrgent sends text whose last byte is urgent.
func sendUrgent(t testing.TB, c *net.TCPConn, text string) {
	t.Helper()
	rc, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := rc.Control(func(raw uintptr) {
		f := sys.NewFD(int(raw))
		defer f.Take() // it stays the connection's
		if n, err := sys.SendUrgent(f, []byte(text)); n != len(text) || err != nil {
			t.Errorf("send urgent data: %d, %v", n, err)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

// A read stops at urgent data although more follows, and splice never gets past
// it, and takes a FIN behind it for the end: all bytes arrive all the same.
func TestUrgentData(t *testing.T) {
	testkit.NoLeaks(t)
	for _, tt := range []struct {
		name   string
		cfg    relay.Config
		bulk   bool // the direction is spliced when it comes
		before string
		after  string
	}{
		{"in the middle", relay.Config{NoSplice: true}, false, "before", "after"},
		{"first", relay.Config{NoSplice: true}, false, "", "after"},
		{"last", relay.Config{NoSplice: true}, false, "before", ""},
		{"alone", relay.Config{NoSplice: true}, false, "", ""},
		{"in the middle, spliced", relay.Config{}, true, "before", "after"},
		{"first, spliced", relay.Config{}, true, "", "after"},
		{"last, spliced", relay.Config{}, true, "before", ""},
	} {
		for _, atOnce := range []bool{true, false} {
			t.Run(tt.name, func(t *testing.T) {
				l := onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true})
				f := join(t, l, tt.cfg, testkit.TCPOptions{FarReadBuffer: 1 << 20, NearBuffers: 1 << 20})
				if tt.bulk {
					onloop.Do(t, l, func() { send(t, f.client, 6*buf.BlockBytes) })
					expect(t, f.server, 6*buf.BlockBytes)
					onloop.Do(t, l, func() {
						if up, _ := f.pair.Splicing(); !up {
							t.Error("the direction is not spliced: this test shows nothing")
						}
					})
				}
				say := func() {
					sendUrgent(t, f.client, tt.before+"!")
					if _, err := f.client.Write([]byte(tt.after)); err != nil {
						t.Error(err)
					}
				}
				if atOnce {
					onloop.Do(t, l, say)
				} else {
					say()
				}
				for _, want := range []string{tt.before, "!", tt.after} {
					got := make([]byte, len(want))
					if n, err := io.ReadFull(f.server, got); err != nil || string(got) != want {
						t.Fatalf("server read %q, %v; want %q", got[:n], err, want)
					}
				}
				// The flow goes on, by the engine that is best for it.
				go func() {
					f.client.Write(pattern(1 << 20))
					f.client.CloseWrite()
				}()
				expect(t, f.server, 1<<20)
				expectEOF(t, f.server)
				f.server.Close()
				if got := f.wait(t); !tt.cfg.NoSplice && got.counts.UpSpliced == 0 {
					t.Error("nothing was spliced")
				}
			})
		}
	}
}
