package tlsrec

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/internal/testkit"
)

// helloBytes returns a ClientHello of crypto/tls.
func helloBytes(t testing.TB, cfg *tls.Config) []byte {
	t.Helper()
	a, b := net.Pipe()
	defer b.Close()
	go tls.Client(a, cfg).Handshake()
	buf := make([]byte, 16<<10)
	n, err := b.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return buf[:n]
}

// ended waits for the end of h and returns it.
func ended(t testing.TB, m *mover, h *Handshake) (*Result, error) {
	t.Helper()
	var (
		r   *Result
		err error
	)
	testkit.Eventually(t, testkit.Wait, "end of the handshake", func() bool {
		r, err = h.Result()
		return r != nil || err != nil
	})
	return r, err
}

// TestNothingStartsBeforeHello wants no goroutine, and little memory, for a
// connection that has not sent a whole ClientHello.
func TestNothingStartsBeforeHello(t *testing.T) {
	testkit.NoLeaks(t)
	g, cfg := newGate(t, Limits{PanicEnds: true}), config(t)
	hello := helloBytes(t, cfg)
	m := newMover(nil)
	h := g.Server(cfg, Origin{}, m)
	for i := range hello[:len(hello)-1] {
		if n := h.Feed(hello[i : i+1]); n != 1 {
			t.Fatalf("took %d bytes", n)
		}
		if h.started || g.Stats().Computing != 0 {
			t.Fatalf("started at byte %d of %d", i, len(hello))
		}
	}
	h.Feed(hello[len(hello)-1:])
	if !h.started {
		t.Fatal("not started by a whole ClientHello")
	}
	var flight []byte
	testkit.Eventually(t, testkit.Wait, "server's flight", func() bool { flight = h.Take(); return len(flight) > 0 })
	testkit.Eventually(t, testkit.Wait, "a server that waits without computing", func() bool { return g.Stats().Computing == 0 })
	if flight[0] != typeHandshake {
		t.Errorf("sent %x", flight[:8])
	}
	h.Abort()
	if r, err := ended(t, m, h); !errors.Is(err, ErrAborted) {
		t.Errorf("got %v, %v", r, err)
	}
}

// TestNotTLS wants what cannot become a handshake named and told so.
func TestNotTLS(t *testing.T) {
	testkit.NoLeaks(t)
	g, cfg := newGate(t, Limits{PanicEnds: true}), config(t)
	old := cfg.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	tiny := func() (b []byte) { // a long ClientHello in records of 1 byte
		for i := range 10000 {
			x := byte(0)
			if i < 4 {
				x = []byte{1, 0, 0x39, 0}[i]
			}
			b = append(b, 22, 3, 3, 0, 1, x)
		}
		return b
	}
	for _, tt := range []struct {
		name  string
		sent  []byte
		alert Alert
		want  string
	}{
		{"HTTP", []byte("GET / HTTP/1.1\r\n"), UnexpectedMessage, `connection starts with "GET / HTTP/1.1\r\n"`},
		{"one byte", []byte{0}, UnexpectedMessage, `"\x00"`},
		{"SSL 2", []byte{0x80, 0x2e, 1, 3, 1}, UnexpectedMessage, "not TLS"},
		{"TLS 1.2", helloBytes(t, old), ProtocolVersion, "unsupported versions"},
		{"version 4", []byte{22, 4}, ProtocolVersion, "version 4"},
		{"another message first", []byte{22, 3, 3, 0, 4, 2, 0, 0, 0}, UnexpectedMessage, "not a ClientHello"},
		{"change_cipher_spec first", []byte{20, 3, 3, 0, 1, 1}, UnexpectedMessage, "not TLS"},
		{"another record in between", []byte{22, 3, 3, 0, 4, 1, 0, 1, 0, 23}, UnexpectedMessage, "in the middle"},
		{"empty record", []byte{22, 3, 3, 0, 0}, UnexpectedMessage, "empty record"},
		{"record too long", []byte{22, 3, 3, 0x40, 1}, RecordOverflow, "longer than 16384"},
		{"message too long", []byte{22, 3, 3, 0, 4, 1, 0, 0x40, 1}, IllegalParameter, "at most 16384"},
		{"too many records", tiny(), IllegalParameter, "too many records"},
		{"a ClientHello of zeros", append([]byte{22, 3, 3, 0, 104, 1, 0, 0, 100}, make([]byte, 100)...), DecodeError, "tls handshake: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMover(nil)
			h := g.Server(cfg, Origin{}, m)
			for rest := tt.sent; len(rest) > 0; {
				n := h.Feed(rest)
				if n == 0 {
					break
				}
				rest = rest[n:]
			}
			_, err := ended(t, m, h)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v; want %q in it", err, tt.want)
			}
			b := h.Take()
			if len(b) != 7 || b[0] != typeAlert || Alert(b[6]) != tt.alert {
				// What crypto/tls itself does not understand it answers by its own lights.
				if tt.alert != DecodeError || len(b) != 7 {
					t.Errorf("sent %x; want alert %v", b, tt.alert)
				}
			}
			testkit.Receive(t, testkit.Wait, "word of it", m.moved)
			testkit.Eventually(t, testkit.Wait, "nothing counted any more", func() bool { return g.Stats() == GateStats{} })
		})
	}
}

// stall is a config whose server stops in the middle of computing until its
// connection's context ends or go is closed; at says that it has stopped.
func stall(cfg *tls.Config, at chan<- struct{}, on <-chan struct{}) *tls.Config {
	cfg = cfg.Clone()
	cfg.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		at <- struct{}{}
		select {
		case <-hello.Context().Done():
			return nil, hello.Context().Err()
		case <-on:
			return nil, nil
		}
	}
	return cfg
}

// TestAbortEverywhere aborts servers and clients at every stage and wants no goroutine
// left, whatever it was doing.
func TestAbortEverywhere(t *testing.T) {
	testkit.NoLeaks(t)
	cfg := config(t)
	hello := helloBytes(t, cfg)
	for _, tt := range []struct {
		name  string
		start func(g *Gate, m *mover) *Handshake
		ready func(g *Gate, h *Handshake) bool
	}{
		{"server, nothing sent", func(g *Gate, m *mover) *Handshake { return g.Server(cfg, Origin{}, m) }, nil},
		{"server, half a ClientHello", func(g *Gate, m *mover) *Handshake {
			h := g.Server(cfg, Origin{}, m)
			h.Feed(hello[:100])
			return h
		}, nil},
		{"server, at any point", func(g *Gate, m *mover) *Handshake {
			h := g.Server(cfg, Origin{}, m)
			h.Feed(hello)
			return h
		}, nil},
		{"server, waiting for Finished", func(g *Gate, m *mover) *Handshake {
			h := g.Server(cfg, Origin{}, m)
			h.Feed(hello)
			return h
		}, func(g *Gate, h *Handshake) bool { return g.Stats().Computing == 0 && len(h.Take()) > 0 }},
		{"server, computing", func(g *Gate, m *mover) *Handshake {
			at := make(chan struct{}, 1)
			h := g.Server(stall(cfg, at, nil), Origin{}, m)
			h.Feed(hello)
			testkit.Receive(t, testkit.Wait, "stall", at)
			return h
		}, nil},
		{"server, waiting to compute", func(g *Gate, m *mover) *Handshake {
			at := make(chan struct{}, 1)
			first := newMover(nil)
			other := g.Server(stall(cfg, at, nil), Origin{}, first)
			other.Feed(hello)
			testkit.Receive(t, testkit.Wait, "stall", at)
			t.Cleanup(other.Abort)
			h := g.Server(cfg, Origin{}, m)
			h.Feed(hello)
			return h
		}, nil},
		{"client, at any point", func(g *Gate, m *mover) *Handshake { return g.Client(cfg, m) }, nil},
		{"client, waiting for ServerHello", func(g *Gate, m *mover) *Handshake { return g.Client(cfg, m) },
			func(g *Gate, h *Handshake) bool { return len(h.Take()) > 0 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGate(t, Limits{Computing: 1, PanicEnds: true})
			m := newMover(nil)
			h := tt.start(g, m)
			if tt.ready != nil {
				testkit.Eventually(t, testkit.Wait, "the stage", func() bool { return tt.ready(g, h) })
			}
			h.Abort()
			if r, err := h.Result(); r != nil || !errors.Is(err, ErrAborted) {
				t.Errorf("got %v, %v", r, err)
			}
			if n := h.Feed(hello); n != len(hello) || h.Take() != nil {
				t.Error("an aborted handshake goes on")
			}
			h.Abort()
		})
	}
}

// TestAbortDropsResult wants the secrets of a result that nobody took gone.
func TestAbortDropsResult(t *testing.T) {
	testkit.NoLeaks(t)
	g, cfg := newGate(t, Limits{PanicEnds: true}), config(t)
	a, b := loopback(t)
	go tls.Server(b, cfg).Handshake()
	m := newMover(a)
	h := g.Client(cfg, m)
	testkit.Eventually(t, testkit.Wait, "ClientHello", func() bool {
		out := h.Take()
		a.Write(out)
		return len(out) > 0
	})
	fed := make(chan struct{})
	go func() {
		defer close(fed)
		buf := make([]byte, 64<<10)
		for {
			n, err := a.Read(buf)
			if err != nil {
				return
			}
			h.Feed(buf[:n])
		}
	}()
	var r *Result
	testkit.Eventually(t, testkit.Wait, "result", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		r = h.result
		return r != nil
	})
	a.Close()
	testkit.Receive(t, testkit.Wait, "the end of feeding", closed(fed))
	h.Abort()
	if r.State.Read.Secret != [maxSecretLen]byte{} || r.State.Write.Secret != [maxSecretLen]byte{} {
		t.Error("secrets are left")
	}
	if got, err := h.Result(); got != nil || !errors.Is(err, ErrAborted) {
		t.Errorf("got %v, %v", got, err)
	}
}

// closed has one in it when ch was closed.
func closed(ch <-chan struct{}) <-chan struct{} {
	out := make(chan struct{}, 1)
	go func() { <-ch; out <- struct{}{} }()
	return out
}

// TestPanicIsContained lets a callback panic.
func TestPanicIsContained(t *testing.T) {
	testkit.NoLeaks(t)
	g, cfg := newGate(t, Limits{}), config(t)
	hello := helloBytes(t, cfg)
	cfg.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { panic("out of order") }
	m := newMover(nil)
	h := g.Server(cfg, Origin{}, m)
	h.Feed(hello)
	_, err := ended(t, m, h)
	if !errors.Is(err, ErrPanicked) || !strings.Contains(err.Error(), "out of order") || !strings.Contains(err.Error(), "abort_test.go") {
		t.Errorf("error: %v", err)
	}
	testkit.Eventually(t, testkit.Wait, "the slot", func() bool { return g.Stats() == GateStats{} })
}

// TestEviction wants the oldest open one to go when there are too many of a peer, of
// a pod or in all, whether it has begun to compute or not.
func TestEviction(t *testing.T) {
	testkit.NoLeaks(t)
	cfg := config(t)
	hello := helloBytes(t, cfg)
	peer := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}) }
	for _, tt := range []struct {
		name   string
		limits Limits
		from   func(i int) Origin
	}{
		{"per peer", Limits{PerPeer: 8, PanicEnds: true}, func(i int) Origin { return Origin{Pod: uint64(i), Peer: peer(1)} }},
		{"per pod", Limits{PerPod: 8, PanicEnds: true}, func(i int) Origin { return Origin{Pod: 1, Peer: peer(i)} }},
		{"total", Limits{Total: 8, PanicEnds: true}, func(i int) Origin { return Origin{Pod: uint64(i), Peer: peer(i)} }},
	} {
		for _, begun := range []int{0, 100, len(hello)} {
			t.Run(fmt.Sprint(tt.name, ", ", begun, " bytes"), func(t *testing.T) {
				g := newGate(t, tt.limits)
				var hs []*Handshake
				var ms []*mover
				for i := range 24 {
					m := newMover(nil)
					h := g.Server(cfg, tt.from(i), m)
					h.Feed(hello[:begun])
					hs, ms = append(hs, h), append(ms, m)
				}
				if s := g.Stats(); s.Servers != 8 || s.Evicted != 16 {
					t.Errorf("%+v", s)
				}
				for i, h := range hs {
					r, err := h.Result()
					if old := i < 16; r != nil || old != errors.Is(err, ErrEvicted) || !old && err != nil {
						t.Errorf("handshake %d: %v", i, err)
					}
					if i < 16 {
						testkit.Receive(t, testkit.Wait, "word of the eviction", ms[i].moved)
					}
					h.Abort()
				}
				if s := g.Stats(); s.Servers != 0 || len(g.pods) != 0 || len(g.peers) != 0 {
					t.Errorf("left: %+v, %d pods, %d peers", s, len(g.pods), len(g.peers))
				}
			})
		}
	}
}

// TestGoodPeerGetsIn opens 300 handshakes from one peer, of which none goes on, and
// wants another peer served meanwhile.
func TestGoodPeerGetsIn(t *testing.T) {
	testkit.NoLeaks(t)
	g, cfg := newGate(t, Limits{Computing: 1, PanicEnds: true}), config(t)
	hello := helloBytes(t, cfg)
	bad := Origin{Pod: 1, Peer: netip.MustParseAddr("192.0.2.1")}
	var hs []*Handshake
	open := func(n int) {
		for range n {
			h := g.Server(cfg, bad, newMover(nil))
			h.Feed(hello)
			hs = append(hs, h)
		}
	}
	open(150)
	a, b := loopback(t)
	done := make(chan error, 1)
	go func() { done <- tls.Client(a, cfg).Handshake() }()
	m := newMover(b)
	h := g.Server(cfg, Origin{Pod: 1, Peer: netip.MustParseAddr("192.0.2.2")}, m)
	open(150)
	if _, err := m.run(h); err != nil {
		t.Error(err)
	}
	if err := testkit.Receive(t, testkit.Wait, "client", done); err != nil {
		t.Error(err)
	}
	testkit.Eventually(t, testkit.Wait, "64 open and 236 evicted", func() bool {
		s := g.Stats()
		return s.Servers == 64 && s.Evicted == 236
	})
	for _, h := range hs {
		h.Abort()
	}
}

// TestComputingIsBounded counts what computes at the same time.
func TestComputingIsBounded(t *testing.T) {
	testkit.NoLeaks(t)
	g, cfg := newGate(t, Limits{Computing: 3, PanicEnds: true}), config(t)
	hello := helloBytes(t, cfg)
	at, on := make(chan struct{}, 20), make(chan struct{})
	cfg = stall(cfg, at, on)
	var hs []*Handshake
	for range 20 {
		h := g.Server(cfg, Origin{}, newMover(nil))
		h.Feed(hello)
		hs = append(hs, h)
	}
	for range 3 {
		testkit.Receive(t, testkit.Wait, "one that computes", at)
	}
	select {
	case <-at:
		t.Error("a fourth computes")
	default:
	}
	if s := g.Stats(); s.Computing != 3 {
		t.Errorf("%+v", s)
	}
	close(on)
	for range 17 {
		testkit.Receive(t, testkit.Wait, "the others", at)
	}
	// All wait for their clients now, and none computes.
	testkit.Eventually(t, testkit.Wait, "rest", func() bool { return g.Stats().Computing == 0 })
	for _, h := range hs {
		if _, err := h.Result(); err != nil {
			t.Error(err)
		}
		h.Abort()
	}
}

// TestGateClose closes a gate over handshakes at all stages.
func TestGateClose(t *testing.T) {
	testkit.NoLeaks(t)
	g, err := NewGate(Limits{Computing: 2, PanicEnds: true})
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(t)
	hello := helloBytes(t, cfg)
	at := make(chan struct{}, 1)
	m := newMover(nil)
	hs := []*Handshake{g.Client(cfg, m), g.Server(cfg, Origin{}, m), g.Server(stall(cfg, at, nil), Origin{}, m), g.Server(cfg, Origin{}, m)}
	hs[2].Feed(hello)
	hs[3].Feed(hello)
	testkit.Receive(t, testkit.Wait, "stall", at)
	g.Close()
	hs = append(hs, g.Client(cfg, m), g.Server(cfg, Origin{}, m))
	for i, h := range hs {
		if _, err := h.Result(); !errors.Is(err, ErrGateClosed) {
			t.Errorf("handshake %d: %v", i, err)
		}
	}
	if s := g.Stats(); s != (GateStats{}) {
		t.Errorf("left: %+v", s)
	}
	g.Close()
}

// TestLimits wants defaults, and faults all at once.
func TestLimits(t *testing.T) {
	l, err := Limits{}.check()
	if err != nil || l.Computing < 1 || l.PerPod != 256 || l.PerPeer != 64 || l.Total != 4096 {
		t.Errorf("%+v, %v", l, err)
	}
	_, err = NewGate(Limits{Computing: -1, PerPod: -1, PerPeer: -1, Total: -1})
	for _, name := range []string{"computing", "per pod", "per peer", "total"} {
		if err == nil || !strings.Contains(err.Error(), name+" is -1; want at least 1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
