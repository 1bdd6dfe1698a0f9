package tlsrec

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/gcm"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// A held connection keeps what is written until it is let go, so that what follows
// the handshake arrives together with it.
type held struct {
	net.Conn
	mu   sync.Mutex
	hold bool
	kept []byte
}

func (h *held) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.hold {
		h.kept = append(h.kept, p...)
		return len(p), nil
	}
	return h.Conn.Write(p)
}

// SetWriteDeadline does nothing: crypto/tls forbids further writes by it when it
// closes, and what is held has still to be written.
func (h *held) SetWriteDeadline(time.Time) error { return nil }

func (h *held) release() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.hold = false
	_, err := h.Conn.Write(h.kept)
	return err
}

// TestDataBehindFinished sends data in the same breath as the client's Finished, more
// than a handshake keeps, and wants all of it.
func TestDataBehindFinished(t *testing.T) {
	testkit.NoLeaks(t)
	for _, size := range []int{1, 1000, 200 << 10} {
		g, cfg := newGate(t, Limits{PanicEnds: true}), config(t)
		a, b := loopback(t)
		theirs := &held{Conn: a}
		want := random(size)
		sent := make(chan error, 1)
		go func() {
			// From here on the client only writes: its certificate and Finished.
			cfg := cfg.Clone()
			cfg.VerifyPeerCertificate = func([][]byte, [][]*x509.Certificate) error {
				theirs.mu.Lock()
				defer theirs.mu.Unlock()
				theirs.hold = true
				return nil
			}
			client := tls.Client(theirs, cfg)
			err := client.Handshake()
			if err == nil {
				_, err = client.Write(want)
			}
			if err == nil {
				err = client.CloseWrite()
			}
			sent <- errors.Join(err, theirs.release())
		}()
		r, err := shake(g, Server, cfg, b)
		if err != nil {
			t.Fatalf("%d bytes: %v; client: %v", size, err, testkit.Receive(t, testkit.Wait, "client", sent))
		}
		if len(r.State.Unopened) == 0 {
			t.Error("nothing came behind Finished: the test tests nothing")
		}
		got, err := io.ReadAll(newStream(t, b, r, gcm.Auto))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes, %v; want %d", len(got), err, len(want))
		}
		if err := testkit.Receive(t, testkit.Wait, "client", sent); err != nil {
			t.Error(err)
		}
	}
}

// An early server appends records to its first flight: tickets and data that a
// server may send before it has heard of the client's Finished.
type early struct {
	net.Conn
	keys  *keyLog
	extra func(r *reference) []byte
}

func (e *early) Write(p []byte) (int, error) {
	if e.keys.serverLen > 0 && e.extra != nil {
		st, err := e.keys.state(Server, AES128GCM)
		if err != nil {
			return 0, err
		}
		both := append(bytes.Clone(p), e.extra(writer(&st))...)
		e.extra = nil
		if _, err := e.Conn.Write(both); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	return e.Conn.Write(p)
}

// TestDataBehindServersFinished wants data kept that a server sent with its own
// Finished.
func TestDataBehindServersFinished(t *testing.T) {
	testkit.NoLeaks(t)
	g, cfg := newGate(t, Limits{PanicEnds: true}), config(t)
	a, b := loopback(t)
	var keys keyLog
	server := tls.Server(&early{Conn: b, keys: &keys, extra: func(r *reference) []byte {
		return joined(r.record(22, ticket(99)...), r.data("early"), r.data(" bird"), r.record(21, 1, 0))
	}}, withKeys(cfg, &keys))
	done := make(chan error, 1)
	go func() { done <- server.Handshake() }()
	r, err := shake(g, Client, cfg, a)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(newStream(t, a, r, gcm.Auto))
	if err != nil || string(got) != "early bird" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := testkit.Receive(t, testkit.Wait, "server", done); err != nil {
		t.Error(err)
	}
}

// TestCertificateRefused lets each side refuse the other's certificate and wants both
// to know why.
func TestCertificateRefused(t *testing.T) {
	testkit.NoLeaks(t)
	errName := errors.New("not who was expected")
	refusing := func() *tls.Config {
		cfg := config(t)
		cfg.VerifyConnection = func(tls.ConnectionState) error { return errName }
		return cfg
	}
	t.Run("client refuses", func(t *testing.T) {
		g := newGate(t, Limits{PanicEnds: true})
		a, b := loopback(t)
		done := make(chan shaken, 1)
		go func() {
			r, err := shake(g, Server, config(t), b)
			done <- shaken{r, err}
		}()
		if _, err := shake(g, Client, refusing(), a); !errors.Is(err, errName) {
			t.Errorf("client: %v", err)
		}
		if s := testkit.Receive(t, testkit.Wait, "server", done); s.err == nil || !strings.Contains(s.err.Error(), "remote error: tls: bad certificate") {
			t.Errorf("server: %v", s.err)
		}
	})
	t.Run("server refuses", func(t *testing.T) {
		g := newGate(t, Limits{PanicEnds: true})
		a, b := loopback(t)
		done := make(chan shaken, 1)
		go func() {
			r, err := shake(g, Server, refusing(), b)
			done <- shaken{r, err}
		}()
		// A client is done before the server has looked at its certificate.
		r, err := shake(g, Client, config(t), a)
		if err != nil {
			t.Fatal(err)
		}
		if s := testkit.Receive(t, testkit.Wait, "server", done); !errors.Is(s.err, errName) {
			t.Errorf("server: %v", s.err)
		}
		_, err = newStream(t, a, r, gcm.Auto).Read(make([]byte, 10))
		if e, ok := errors.AsType[*Error](err); !ok || !e.Remote || e.Alert != BadCertificate {
			t.Errorf("client: %v", err)
		}
	})
	t.Run("server asks, client has none", func(t *testing.T) {
		g := newGate(t, Limits{PanicEnds: true})
		a, b := loopback(t)
		go func() {
			cfg := config(t)
			cfg.Certificates = nil
			shake(g, Client, cfg, a)
		}()
		if _, err := shake(g, Server, config(t), b); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("server: %v", err)
		}
	})
}

// TestConfigIsKept wants the user's Config as it was, and none of what it asks for
// that a handshake of ours must not do: a key log, tickets, older versions.
func TestConfigIsKept(t *testing.T) {
	testkit.NoLeaks(t)
	var log bytes.Buffer
	loose := config(t)
	loose.KeyLogWriter, loose.MinVersion, loose.ClientSessionCache = &log, tls.VersionTLS10, tls.NewLRUClientSessionCache(1)
	chooser := config(t)
	chose := false
	chooser.KeyLogWriter = &log
	chooser.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { chose = true; return loose, nil }
	s, other := withTLS(t, Server, chooser, config(t), gcm.Auto)
	converse(t, s, other, 1000)
	s, other = withTLS(t, Client, loose, config(t), gcm.Auto)
	converse(t, s, other, 1000)
	if log.Len() > 0 {
		t.Errorf("key log: %q", log.String())
	}
	if !chose || loose.KeyLogWriter != &log || loose.MinVersion != tls.VersionTLS10 || loose.SessionTicketsDisabled || loose.ClientSessionCache == nil {
		t.Error("the config was changed")
	}
}

// TestServerTooOld wants a server without TLS 1.3 refused.
func TestServerTooOld(t *testing.T) {
	testkit.NoLeaks(t)
	g, cfg := newGate(t, Limits{PanicEnds: true}), config(t)
	old := cfg.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	a, b := loopback(t)
	go tls.Server(b, old).Handshake()
	if _, err := shake(g, Client, cfg, a); err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("got %v", err)
	}
}

// again runs the test of this name alone in another process, with one more variable,
// and reports whether this is that process.
func again(t *testing.T, variable string) bool {
	t.Helper()
	const mark = "TLSREC_AGAIN"
	if os.Getenv(mark) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), mark+"=1", variable)
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("with %s: %v\n%s", variable, err, out)
	}
	return false
}

// TestFIPSOnly wants GODEBUG=fips140=only refused with a reason.
func TestFIPSOnly(t *testing.T) {
	if !again(t, "GODEBUG=fips140=only") {
		if err := CheckFIPS(); err != nil {
			t.Errorf("refused without it: %v", err)
		}
		return
	}
	if err := CheckFIPS(); err == nil || !strings.Contains(err.Error(), "GODEBUG=fips140=only") {
		t.Errorf("not refused: %v", err)
	}
}

// TestFIPSOn wants GODEBUG=fips140=on to work.
func TestFIPSOn(t *testing.T) {
	if !again(t, "GODEBUG=fips140=on") {
		return
	}
	if err := CheckFIPS(); err != nil {
		t.Error(err)
	}
	for _, impl := range gcm.Impls() {
		s, other := withTLS(t, Client, config(t), config(t), impl)
		converse(t, s, other, 100<<10)
	}
}

// TestChaChaAgainstCryptoTLS makes crypto/tls believe that the CPU has no AES, so that
// it settles on ChaCha20-Poly1305.
func TestChaChaAgainstCryptoTLS(t *testing.T) {
	if !again(t, "GODEBUG=cpu.aes=off") {
		return
	}
	for _, role := range []Role{Client, Server} {
		s, other := withTLS(t, role, config(t), config(t), gcm.Auto)
		if s.c.Suite() != ChaCha20Poly1305 {
			t.Fatalf("settled on %v", s.c.Suite())
		}
		converse(t, s, other, 500<<10)
	}
}
