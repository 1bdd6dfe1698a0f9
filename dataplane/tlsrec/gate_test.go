package tlsrec

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/gcm"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// TestStorm lets many handshakes run, be evicted and be aborted at once, and wants each
// to end in exactly one way, none to be counted at the end, and those that succeed to
// carry data.
func TestStorm(t *testing.T) {
	testkit.NoLeaks(t)
	g := newGate(t, Limits{Computing: 2, PerPeer: 5, PerPod: 6, PanicEnds: true})
	cfg := config(t)
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		count = map[string]int{}
	)
	one := func(seed uint64) string {
		r := rand.New(rand.NewPCG(seed, 1))
		a, b := loopback(t)
		defer a.Close()
		defer b.Close()
		client := make(chan error, 1)
		go func() {
			conn := tls.Client(a, cfg)
			err := conn.Handshake()
			if err == nil {
				_, err = conn.Write([]byte("hello"))
			}
			client <- err
		}()
		defer func() { <-client }()
		defer a.Close()
		m := newMover(b)
		m.chunk = r.IntN(3) * 200
		h := g.Server(cfg, Origin{Pod: seed % 2}, m)
		if r.IntN(4) == 0 {
			h.Feed([]byte{22, 3, 1})
			h.Abort()
			if _, err := h.Result(); !errors.Is(err, ErrAborted) && !errors.Is(err, ErrEvicted) {
				t.Errorf("after Abort: %v", err)
			}
			return "aborted"
		}
		res, err := m.run(h)
		if errors.Is(err, ErrEvicted) {
			return "evicted"
		}
		if err != nil {
			t.Error(err)
			return "failed"
		}
		got := make([]byte, 5)
		if _, err := io.ReadFull(newStream(t, b, res, gcm.Auto), got); err != nil || string(got) != "hello" {
			t.Errorf("got %q, %v", got, err)
		}
		return "done"
	}
	for worker := range uint64(12) {
		wg.Go(func() {
			for i := range uint64(12) {
				how := one(worker*100 + i)
				mu.Lock()
				count[how]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	testkit.Eventually(t, testkit.Wait, "nothing counted any more", func() bool {
		s := g.Stats()
		return s.Servers == 0 && s.Clients == 0 && s.Computing == 0
	})
	if len(g.pods) != 0 || len(g.peers) != 0 {
		t.Errorf("left: %d pods, %d peers", len(g.pods), len(g.peers))
	}
	if count["done"] == 0 || count["aborted"] == 0 {
		t.Errorf("a storm of %v", count)
	}
	t.Logf("%v", count)
}

// TestFedAfterEnd wants what arrives between the end of a handshake and its Result to be
// kept, up to the bound, and the rest left to the caller.
func TestFedAfterEnd(t *testing.T) {
	testkit.NoLeaks(t)
	g, cfg := newGate(t, Limits{PanicEnds: true}), config(t)
	a, b := loopback(t)
	client := make(chan *tls.Conn, 1)
	go func() {
		conn := tls.Client(a, cfg)
		conn.Handshake()
		client <- conn
	}()
	m := newMover(b)
	h := g.Server(cfg, Origin{}, m)
	buf := make([]byte, 64<<10)
	read := func() []byte {
		t.Helper()
		n, err := b.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		return buf[:n]
	}
	isEnded := func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.ended
	}
	h.Feed(read())
	testkit.Eventually(t, testkit.Wait, "server's flight", func() bool {
		out := h.Take()
		b.Write(out)
		return len(out) > 0
	})
	conn := testkit.Receive(t, testkit.Wait, "client", client)
	// The client has sent all of its flight; how the kernel cuts it is not known.
	testkit.Eventually(t, testkit.Wait, "end of the handshake", func() bool {
		b.SetReadDeadline(time.Now().Add(time.Millisecond))
		if n, _ := b.Read(buf); n > 0 {
			h.Feed(buf[:n])
		}
		return isEnded()
	})
	b.SetReadDeadline(time.Time{})
	want := digits(100 << 10)
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(conn, want)
		sent <- errors.Join(err, conn.CloseWrite())
	}()
	// The kernel may bring a little at a time.
	var rest []byte
	for len(rest) == 0 {
		b := read()
		rest = append(rest, b[h.Feed(b):]...)
	}
	r, err := h.Result()
	if err != nil || len(r.State.Unopened) != maxIn {
		t.Fatalf("%v, %v", r, err)
	}
	r.State.Unopened = append(r.State.Unopened, rest...)
	got, err := io.ReadAll(newStream(t, b, r, gcm.Auto))
	if err != nil || string(got) != want {
		t.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
	}
	if err := testkit.Receive(t, testkit.Wait, "sender", sent); err != nil {
		t.Error(err)
	}
	if r, err := h.Result(); r != nil || !errors.Is(err, errTaken) {
		t.Errorf("the result a second time: %v, %v", r, err)
	}
}

// TestLongRecordsInHandshake sends headers of records that are too long.
func TestLongRecordsInHandshake(t *testing.T) {
	testkit.NoLeaks(t)
	g, cfg := newGate(t, Limits{PanicEnds: true}), config(t)
	hello := helloBytes(t, cfg)
	for _, tt := range []struct {
		name string
		h    func(m *mover) *Handshake
		sent []byte
		want string
	}{
		{"to a server, protected", func(m *mover) *Handshake {
			h := g.Server(cfg, Origin{}, m)
			h.Feed(hello)
			return h
		}, []byte{23, 3, 3, 0x41, 1}, "oversized record received with length 16641"},
		{"to a client, not protected", func(m *mover) *Handshake { return g.Client(cfg, m) },
			[]byte{22, 3, 3, 0x41, 1}, "unexpected EOF"},
		{"to a client, the longest length", func(m *mover) *Handshake { return g.Client(cfg, m) },
			[]byte{22, 3, 3, 0xff, 0xff}, "oversized record received with length 65535"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMover(nil)
			h := tt.h(m)
			testkit.Eventually(t, testkit.Wait, "something to send", func() bool { return len(h.Take()) > 0 })
			h.Feed(tt.sent)
			if _, err := ended(t, m, h); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v; want %q in it", err, tt.want)
			}
		})
	}
}

// TestSealSizes wants sizes that a caller got wrong to panic, before anything is
// sealed.
func TestSealSizes(t *testing.T) {
	client, _ := states(t, AES128GCM)
	c := newConn(t, &client)
	for name, seal := range map[string]func(){
		"no room for a payload":      func() { c.Seal(make([]byte, Overhead-1), 0) },
		"more payload than legal":    func() { c.Seal(make([]byte, MaxSealed+1), MaxPlaintext+1) },
		"a last record too short":    func() { c.SealEach(make([]byte, 100+Overhead-1), 100) },
		"records too short":          func() { c.SealEach(make([]byte, 100), Overhead-1) },
		"records too long":           func() { c.SealEach(make([]byte, 100), MaxSealed+1) },
		"no room for what is sealed": func() { c.SealTo(make([]byte, 100), make([]byte, 100-Overhead+1)) },
	} {
		func() {
			defer func() {
				if v := recover(); v == nil || !strings.HasPrefix(fmt.Sprint(v), "tlsrec: seal ") {
					t.Errorf("%s: %v", name, v)
				}
			}()
			seal()
		}()
	}
	if c.write.seq != 0 {
		t.Errorf("%d records were sealed", c.write.seq)
	}
	if err := c.SealEach(nil, 100); err != nil {
		t.Errorf("nothing: %v", err)
	}
	if n, err := c.SealTo(nil, nil); n != 0 || err != nil {
		t.Errorf("nothing: %d, %v", n, err)
	}
}

// TestNames wants every known value to have a name of its own, and others to show their
// number.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	named := 0
	for a := range 256 {
		s := Alert(a).String()
		if seen[s] {
			t.Errorf("two alerts are %s", s)
		}
		seen[s] = true
		if s != fmt.Sprintf("alert(%d)", a) {
			named++
		}
	}
	if named != 18 {
		t.Errorf("%d alerts have names", named)
	}
	if s := fmt.Sprint(Client, Server, Role(7), Suite(0x1304)); s != "client server role(7) suite(0x1304)" {
		t.Errorf("names: %s", s)
	}
	if e := refuse(BadRecordMAC, "why"); e.Error() != "tls: why (bad_record_mac)" {
		t.Errorf("error: %v", e)
	}
	if e := (&Error{Alert: 99, Remote: true}); e.Error() != "tls: peer sent alert alert(99)" {
		t.Errorf("error: %v", e)
	}
}
