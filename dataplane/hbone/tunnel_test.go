package hbone_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"golang.org/x/net/http2"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/gcm"
	"github.com/sluice-mesh/sluice/dataplane/h2"
	"github.com/sluice-mesh/sluice/dataplane/hbone"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

// A peer that speaks before we have a certificate waits, and is served then.
func TestServeBeforeCertificate(t *testing.T) {
	testkit.NoLeaks(t)
	n := newNode(t)
	far, accept := n.serve()
	ready := make(chan *peer, 1)
	go func() { ready <- newPeer(t, far, tls.Client, n.certs[here].Client([]flow.Identity{there})) }()
	// The hello is there, and nothing may be done with it yet.
	testkit.Eventually(t, testkit.Wait, "the hello to arrive", func() (read bool) {
		onloop.Do(t, n.loop, func() {
			for _, tn := range hbone.Of(n.loop, n) {
				read = tn.Socket().Readable()
			}
		})
		return read
	})
	accept()
	p := testkit.Receive(t, testkit.Wait, "the handshake", ready)
	p.hello(true)
	p.headers(1, false, ":method", "CONNECT", ":authority", "192.0.2.2:80")
	if got := status(t, p.next()); got != "200" {
		t.Errorf("status %s; want 200", got)
	}
	if err := p.WriteData(1, true, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for last := false; !last; {
		switch f := p.next().(type) {
		case *http2.DataFrame:
			got, last = append(got, f.Data()...), f.StreamEnded()
		default:
			t.Fatalf("frame %v; want DATA", f)
		}
	}
	if string(got) != "hello" {
		t.Errorf("%q came back", got)
	}
}

// A CONNECT that is refused gets its status and the end of the stream, and the
// tunnel goes on.
func TestRefuse(t *testing.T) {
	testkit.NoLeaks(t)
	n := newNode(t)
	n.refuse = 503
	far, accept := n.serve()
	accept()
	p := newPeer(t, far, tls.Client, n.certs[here].Client([]flow.Identity{there}))
	p.hello(true)
	for id := uint32(1); id < 8; id += 2 {
		p.headers(id, true, ":method", "CONNECT", ":authority", "192.0.2.2:80")
		f := p.next()
		if got := status(t, f); got != "503" || f.Header().StreamID != id || !f.(*http2.MetaHeadersFrame).StreamEnded() {
			t.Errorf("stream %d: status %s in %v; want 503 and its end", id, got, f)
		}
	}
}

// What breaks the protocol ends the stream or the tunnel, with the code that RFC
// 9113 names, and is counted.
func TestFaults(t *testing.T) {
	testkit.NoLeaks(t)
	for _, tt := range []struct {
		name   string
		do     func(p *peer)
		stream http2.ErrCode // of RST_STREAM; 0 means GOAWAY with away
		away   http2.ErrCode
	}{
		{"RFC 9113 8.5: a path", func(p *peer) {
			p.headers(1, false, ":method", "CONNECT", ":authority", "192.0.2.2:80", ":path", "/")
		}, http2.ErrCodeProtocol, 0},
		{"RFC 9113 6.1: DATA on stream 0", func(p *peer) {
			p.AllowIllegalWrites = true
			if err := p.WriteData(0, false, []byte("x")); err != nil {
				p.t.Error(err)
			}
		}, 0, http2.ErrCodeProtocol},
		{"RFC 9113 6.9.1: the connection's window", func(p *peer) {
			if err := p.WriteWindowUpdate(0, 1<<31-1); err != nil {
				p.t.Error(err)
			}
		}, 0, http2.ErrCodeFlowControl},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			far, accept := n.serve()
			accept()
			p := newPeer(t, far, tls.Client, n.certs[here].Client([]flow.Identity{there}))
			p.hello(true)
			tt.do(p)
			switch f := p.next().(type) {
			case *http2.RSTStreamFrame:
				if f.ErrCode != tt.stream {
					t.Errorf("stream was reset with %v; want %v", f.ErrCode, tt.stream)
				}
			case *http2.GoAwayFrame:
				if f.ErrCode != tt.away || tt.away == 0 {
					t.Errorf("GOAWAY with %v; want %v", f.ErrCode, tt.away)
				}
				if why := testkit.Receive(t, testkit.Wait, "the end of the tunnel", n.closed); why != flow.CloseProtocol {
					t.Errorf("the tunnel ended with %v", why)
				}
			default:
				t.Errorf("frame %v", f)
			}
			onloop.Do(t, n.loop, func() {
				if s, tn := n.loop.Metrics.Count(metric.StreamFaults), n.loop.Metrics.Count(metric.TunnelFaults); s+tn != 1 {
					t.Errorf("counted %d faults of streams and %d of tunnels; want one", s, tn)
				}
			})
		})
	}
}

// open opens a stream to the peer that the test plays.
func (n *node) open() (told answers, stream func() *hbone.Stream) {
	told = make(answers, 1)
	var s *hbone.Stream
	onloop.Do(n.t, n.loop, func() {
		k := hbone.Key{From: n, Peer: there, To: netip.MustParseAddrPort("192.0.2.2:15008")}
		s = hbone.PoolOf(n.loop, gcm.Best(), new(hbone.Directory)).Open(k, h2.AppendConnect(nil, []byte("192.0.2.2:80")), told)
	})
	return told, func() *hbone.Stream { return s }
}

// A stream that the peer did nothing for is opened once more on a fresh tunnel, and
// not twice.
func TestRetry(t *testing.T) {
	testkit.NoLeaks(t)
	refused := func(p *peer) error { return p.WriteRSTStream(1, http2.ErrCodeRefusedStream) }
	away := func(p *peer) error { return p.WriteGoAway(0, http2.ErrCodeNo, nil) }
	for _, tt := range []struct {
		name          string
		first, second func(*peer) error // nil accepts
		want          flow.CloseReason
	}{
		{"refused once", refused, nil, flow.Open},
		{"GOAWAY once", away, nil, flow.Open},
		{"refused twice", refused, refused, flow.CloseServerReset},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			told, stream := n.open()
			for i, do := range []func(*peer) error{tt.first, tt.second} {
				c := testkit.Receive(t, testkit.Wait, "a tunnel to be dialled", n.peers)
				p := newPeer(t, c, tls.Server, n.certs[there].Server())
				p.hello(false)
				if h, ok := p.next().(*http2.MetaHeadersFrame); !ok || h.PseudoValue("method") != "CONNECT" || h.PseudoValue("authority") != "192.0.2.2:80" {
					t.Fatalf("attempt %d: frame %v; want the CONNECT", i+1, h)
				}
				if do == nil {
					p.headers(1, false, ":status", "200")
				} else if err := do(p); err != nil {
					t.Fatal(err)
				}
			}
			if got := testkit.Receive(t, testkit.Wait, "the answer", told); got.why != tt.want {
				t.Errorf("the stream was opened with %v, %v; want %v", got.why, got.err, tt.want)
			}
			onloop.Do(t, n.loop, func() {
				if got := n.loop.Metrics.Count(metric.StreamsRetried); got != 1 {
					t.Errorf("%d streams were tried again; want 1", got)
				}
				stream().Close()
			})
		})
	}
}

// An answer that is not 200 is told with its status, and a reset before it with its
// code.
func TestNotOpened(t *testing.T) {
	testkit.NoLeaks(t)
	for _, tt := range []struct {
		name string
		do   func(*peer) error
		why  flow.CloseReason
		err  error
	}{
		{"status 503", func(p *peer) error { p.headers(1, true, ":status", "503"); return nil }, flow.CloseStatus, hbone.StatusError(503)},
		{"reset", func(p *peer) error { return p.WriteRSTStream(1, http2.ErrCodeCancel) }, flow.CloseServerReset, hbone.ResetError(h2.Cancel)},
		{"connection lost", func(p *peer) error { return p.conn.Close() }, flow.CloseServerReset, nil}, // a FIN or a reset
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			told, _ := n.open()
			p := newPeer(t, testkit.Receive(t, testkit.Wait, "a tunnel to be dialled", n.peers), tls.Server, n.certs[there].Server())
			p.hello(false)
			p.next()
			if err := tt.do(p); err != nil {
				t.Fatal(err)
			}
			if got := testkit.Receive(t, testkit.Wait, "the answer", told); got.why != tt.why || got.err == nil || tt.err != nil && !errors.Is(got.err, tt.err) {
				t.Errorf("the stream ended with %v, %v; want %v, %v", got.why, got.err, tt.why, tt.err)
			}
		})
	}
}

// Many bytes come back as they went, through frames of the smallest legal size, and
// no window is exceeded.
func TestEcho(t *testing.T) {
	testkit.NoLeaks(t)
	n := newNode(t)
	far, accept := n.serve()
	accept()
	p := newPeer(t, far, tls.Client, n.certs[here].Client([]flow.Identity{there}))
	p.hello(true)
	p.headers(1, false, ":method", "CONNECT", ":authority", "192.0.2.2:80")
	if got := status(t, p.next()); got != "200" {
		t.Fatalf("status %s", got)
	}
	sent := bytes.Repeat([]byte("0123456789abcdef"), 2500) // 40 000 bytes, less than any window
	go func() {
		for b := sent; len(b) > 0; {
			k := min(len(b), 1000)
			if err := p.WriteData(1, k == len(b), b[:k]); err != nil {
				t.Error(err)
				return
			}
			b = b[k:]
		}
	}()
	var got []byte
	for last := false; !last; {
		f, ok := p.next().(*http2.DataFrame)
		if !ok {
			continue // WINDOW_UPDATE
		}
		if len(f.Data()) > 16384 {
			t.Fatalf("a frame of %d bytes; the peer takes 16384", len(f.Data()))
		}
		got, last = append(got, f.Data()...), f.StreamEnded()
	}
	if !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came back of %d, or others", len(got), len(sent))
	}
}

// A source fills whatever room a stream lends with bytes that count up.
type source struct {
	s    *hbone.Stream
	at   int
	left int
}

func (f *source) Readable() {}
func (f *source) Writable() {
	for f.left > 0 {
		room := f.s.Room(f.left)
		if room == nil {
			return
		}
		n := 0
		for _, r := range room {
			for i := range r {
				r[i] = byte((f.at + n) % 251)
				n++
			}
		}
		if err := f.s.Commit(n); err != nil {
			return
		}
		f.at += n
		f.left -= n
	}
	f.s.Finish(flow.CloseEOF)
}
func (f *source) Ended(flow.CloseReason, error) { f.s.Close() }

// Room that goes over many records comes out in frames that the peer takes, in order,
// as far as its windows allow.
func TestRoom(t *testing.T) {
	testkit.NoLeaks(t)
	const size = 3 << 20
	for _, frame := range []uint32{16 << 10, 20000, 40000, 1 << 20} {
		t.Run(fmt.Sprint(frame), func(t *testing.T) {
			n := newNode(t)
			n.fill = size
			far, accept := n.serve()
			accept()
			p := newPeer(t, far, tls.Client, n.certs[here].Client([]flow.Identity{there}))
			p.hello(true, http2.Setting{ID: http2.SettingMaxFrameSize, Val: frame})
			p.headers(1, false, ":method", "CONNECT", ":authority", "192.0.2.2:80")
			if got := status(t, p.next()); got != "200" {
				t.Fatalf("status %s", got)
			}
			at, largest := 0, 0
			credit := 65535
			for last := false; !last; {
				f, ok := p.next().(*http2.DataFrame)
				if !ok {
					t.Fatalf("frame %v; want DATA", f)
				}
				b := f.Data()
				largest = max(largest, len(b))
				if credit -= len(b); credit < 0 || len(b) > int(frame) {
					t.Fatalf("a frame of %d bytes, %d beyond the window", len(b), -credit)
				}
				for i, c := range b {
					if c != byte((at+i)%251) {
						t.Fatalf("byte %d is %d; want %d", at+i, c, byte((at+i)%251))
					}
				}
				at, last = at+len(b), f.StreamEnded()
				if credit < 1<<20 && !last {
					for _, id := range []uint32{0, 1} {
						if err := p.WriteWindowUpdate(id, 1<<20); err != nil {
							t.Fatal(err)
						}
					}
					credit += 1 << 20
				}
			}
			if at != size {
				t.Errorf("%d bytes came; want %d", at, size)
			}
			t.Logf("the largest frame was %d bytes", largest)
			if frame > 1<<18 && largest < 1<<17 {
				t.Errorf("the largest frame was %d bytes: the room was never wide", largest)
			}
		})
	}
}

// until reads frames up to the answer to a PING, and returns the bytes of DATA before
// it: all that was under way.
func (p *peer) until() (n int) {
	p.t.Helper()
	if err := p.WritePing(false, [8]byte{1}); err != nil {
		p.t.Fatal(err)
	}
	for {
		f, err := p.ReadFrame()
		if err != nil {
			p.t.Fatalf("read a frame: %v", err)
		}
		switch f := f.(type) {
		case *http2.DataFrame:
			n += len(f.Data())
		case *http2.PingFrame:
			return n
		}
	}
}

// Nothing is sent beyond the stream's window, or the connection's, and all that they
// allow.
func TestSendWindows(t *testing.T) {
	testkit.NoLeaks(t)
	n := newNode(t)
	n.fill = 1 << 20
	far, accept := n.serve()
	accept()
	p := newPeer(t, far, tls.Client, n.certs[here].Client([]flow.Identity{there}))
	p.hello(true)
	p.headers(1, false, ":method", "CONNECT", ":authority", "192.0.2.2:80")
	if got := status(t, p.next()); got != "200" {
		t.Fatalf("status %s", got)
	}
	grant := func(id, n uint32) {
		t.Helper()
		if err := p.WriteWindowUpdate(id, n); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		what    string
		do      func()
		atLeast int
		atMost  int
	}{
		{"the first windows", func() {}, 65535, 65535},
		{"more for the connection", func() { grant(0, 1000) }, 0, 0},
		{"more for the stream", func() { grant(1, 5000) }, 1000, 1000},
		{"more for the connection again", func() { grant(0, 10000) }, 4000, 4000},
	} {
		tt.do()
		got := 0
		// A PING is answered at once, what a grant lets go comes in the same turn or later.
		testkit.Eventually(t, testkit.Wait, tt.what, func() bool { got += p.until(); return got >= tt.atLeast })
		if got += p.until(); got > tt.atMost {
			t.Errorf("%s: %d bytes came; want %d", tt.what, got, tt.atMost)
		}
	}
}

// A stream that is read is granted more and more, and so is the connection.
func TestGrants(t *testing.T) {
	testkit.NoLeaks(t)
	n := newNode(t)
	n.drop = true
	far, accept := n.serve()
	accept()
	p := newPeer(t, far, tls.Client, n.certs[here].Client([]flow.Identity{there}))
	p.hello(true)
	p.headers(1, false, ":method", "CONNECT", ":authority", "192.0.2.2:80")
	const size = 40 << 20
	stream, conn := 1<<20, 65535 // the stream's is in our SETTINGS
	piece := make([]byte, 16<<10)
	for sent := 0; sent < size; {
		k := min(len(piece), stream, conn, size-sent)
		if k > 0 {
			if err := p.WriteData(1, false, piece[:k]); err != nil {
				t.Fatal(err)
			}
			sent, stream, conn = sent+k, stream-k, conn-k
			continue
		}
		f, err := p.ReadFrame()
		if err != nil {
			t.Fatalf("after %d bytes, with %d and %d left: %v", sent, stream, conn, err)
		}
		if w, ok := f.(*http2.WindowUpdateFrame); ok && w.StreamID == 0 {
			conn += int(w.Increment)
		} else if ok {
			stream += int(w.Increment)
		}
	}
	if err := p.WriteData(1, true, nil); err != nil {
		t.Fatal(err)
	}
	if got := testkit.Receive(t, testkit.Wait, "the end of the stream", n.dropped); got != size {
		t.Errorf("%d bytes were read; want %d", got, size)
	}
}
