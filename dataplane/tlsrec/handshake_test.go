package tlsrec

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/gcm"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// shaken is one side's end of a handshake.
type shaken struct {
	r   *Result
	err error
}

// withTLS does a handshake of ours in role with crypto/tls on the other side, and
// returns both.
func withTLS(t testing.TB, role Role, ours, theirs *tls.Config, impl gcm.Impl) (*stream, *tls.Conn) {
	t.Helper()
	g := newGate(t, Limits{PanicEnds: true})
	a, b := loopback(t)
	done := make(chan shaken, 1)
	go func() {
		r, err := shake(g, role, ours, a)
		done <- shaken{r, err}
	}()
	other := tls.Client(b, theirs)
	if role == Client {
		other = tls.Server(b, theirs)
	}
	testkit.Within(t, testkit.Wait, "handshake of crypto/tls", other.Handshake)
	got := testkit.Receive(t, testkit.Wait, "handshake", done)
	if got.err != nil {
		t.Fatal(got.err)
	}
	if len(got.r.Certificates) != 1 || got.r.Protocol != "h2" {
		t.Errorf("%d certificates, protocol %q; want 1 and h2", len(got.r.Certificates), got.r.Protocol)
	}
	return newStream(t, a, got.r, impl), other
}

// converse sends bytes both ways at once, then close_notify both ways.
func converse(t testing.TB, s *stream, other net.Conn, n int) {
	t.Helper()
	up, down := random(n), random(n)
	results := make(chan error, 4)
	read := func(r io.Reader, want []byte) {
		got, err := io.ReadAll(r)
		if err == nil && !bytes.Equal(got, want) {
			err = errors.New("other bytes than were sent")
		}
		results <- err
	}
	write := func(w interface {
		io.Writer
		CloseWrite() error
	}, b []byte) {
		for len(b) > 0 {
			n := min(len(b), 1+len(b)/3)
			if _, err := w.Write(b[:n]); err != nil {
				results <- err
				return
			}
			b = b[n:]
		}
		results <- w.CloseWrite()
	}
	go write(other.(*tls.Conn), down)
	go read(other, up)
	// A Conn is for one thread at a time.
	go func() {
		write(s, up)
		read(s, down)
	}()
	for range 4 {
		if err := testkit.Receive(t, testkit.Wait, "bytes both ways", results); err != nil {
			t.Error(err)
		}
	}
}

// TestAgainstCryptoTLS lets crypto/tls be the other side, as client and server, for
// each implementation of the cipher.
func TestAgainstCryptoTLS(t *testing.T) {
	testkit.NoLeaks(t)
	for _, impl := range gcm.Impls() {
		for _, role := range []Role{Client, Server} {
			t.Run(impl.String()+"/"+role.String(), func(t *testing.T) {
				s, other := withTLS(t, role, config(t), config(t), impl)
				converse(t, s, other, 500<<10)
			})
		}
	}
}

// TestHandshakeWithItself lets ours be both sides, fed in pieces of every small
// size.
func TestHandshakeWithItself(t *testing.T) {
	testkit.NoLeaks(t)
	g := newGate(t, Limits{PanicEnds: true})
	cfg := config(t)
	for _, chunk := range []int{0, 1, 2, 3, 5, 100, 1000} {
		a, b := loopback(t)
		done := make(chan shaken, 1)
		go func() {
			m := newMover(a)
			m.chunk = chunk
			r, err := m.run(g.Client(cfg, m))
			done <- shaken{r, err}
		}()
		m := newMover(b)
		m.chunk = chunk
		server, err := m.run(g.Server(cfg, Origin{}, m))
		if err != nil {
			t.Fatalf("server, fed by %d: %v", chunk, err)
		}
		client := testkit.Receive(t, testkit.Wait, "client", done)
		if client.err != nil {
			t.Fatalf("client, fed by %d: %v", chunk, client.err)
		}
		c, s := newConn(t, &client.r.State), newConn(t, &server.State)
		if got := opened(t, s, sealed(t, c, []byte("up"))); string(got) != "up" {
			t.Errorf("up: %q", got)
		}
		if got := opened(t, c, sealed(t, s, []byte("down"))); string(got) != "down" {
			t.Errorf("down: %q", got)
		}
	}
}
