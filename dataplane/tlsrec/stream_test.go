package tlsrec

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/gcm"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// certificate makes a self-signed one.
func certificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "record test"},
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// config is for both roles, both of which have to show a certificate.
func config(t testing.TB) *tls.Config {
	t.Helper()
	return &tls.Config{
		Certificates: []tls.Certificate{certificate(t)}, NextProtos: []string{"h2"},
		ClientAuth: tls.RequireAnyClientCert, InsecureSkipVerify: true, MinVersion: tls.VersionTLS13,
	}
}

func newGate(t testing.TB, l Limits) *Gate {
	t.Helper()
	g, err := NewGate(l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// A mover is a User that has a connection and a loop's worth of patience.
type mover struct {
	conn  net.Conn
	moved chan struct{}
	chunk int // bytes fed at once; 0 is what a read brings
}

func newMover(conn net.Conn) *mover { return &mover{conn: conn, moved: make(chan struct{}, 1)} }

func (m *mover) HandshakeMoved(*Handshake) {
	select {
	case m.moved <- struct{}{}:
	default:
	}
}

// run moves the bytes of h until it has a result.
func (m *mover) run(h *Handshake) (*Result, error) {
	arrived := make(chan []byte)
	asked := make(chan struct{}, 1)
	go func() {
		defer close(arrived)
		for range asked {
			b := make([]byte, 64<<10)
			n, err := m.conn.Read(b)
			if n > 0 {
				arrived <- b[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	// The reader has no bytes of its own when it is told to stop: it is asked for
	// each read, and interrupted in one that has no bytes.
	var rest []byte
	stop := func() {
		close(asked)
		m.conn.SetReadDeadline(time.Now())
		for b := range arrived {
			rest = append(rest, b...)
		}
		m.conn.SetReadDeadline(time.Time{})
	}
	reading, gone := false, false
	deadline := time.After(testkit.Wait)
	for {
		if b := h.Take(); len(b) > 0 {
			if _, err := m.conn.Write(b); err != nil {
				stop()
				h.Abort()
				return nil, err
			}
		}
		if r, err := h.Result(); r != nil || err != nil {
			stop()
			if r != nil {
				r.State.Unopened = append(r.State.Unopened, rest...)
			}
			return r, err
		}
		for len(rest) > 0 {
			n := len(rest)
			if m.chunk > 0 {
				n = min(n, m.chunk)
			}
			if n = h.Feed(rest[:n]); n == 0 {
				break
			}
			rest = rest[n:]
		}
		if len(rest) == 0 && !reading && !gone {
			asked <- struct{}{}
			reading = true
		}
		select {
		case <-m.moved:
		case b, ok := <-arrived:
			reading = false
			rest = append(rest, b...)
			if !ok {
				gone, arrived = true, make(chan []byte)
				close(arrived)
				h.Abort()
			}
		case <-deadline:
			h.Abort()
			stop()
			return nil, errors.New("handshake not done in time")
		}
	}
}

// shake does a handshake over conn.
func shake(g *Gate, role Role, cfg *tls.Config, conn net.Conn) (*Result, error) {
	m := newMover(conn)
	if role == Client {
		return m.run(g.Client(cfg, m))
	}
	return m.run(g.Server(cfg, Origin{}, m))
}

// copyState is Freeze for tests that look at keys.
func (c *Conn) copyState() State {
	return State{
		Role: c.role, Suite: c.suite,
		Read: Direction{Secret: c.read.secret, Seq: c.read.seq}, Write: Direction{Secret: c.write.secret, Seq: c.write.seq},
	}
}

// A stream is a Conn over a connection.
type stream struct {
	net  net.Conn
	c    *Conn
	buf  []byte // ciphertext that was read
	open []byte // payload that was not handed out yet
	room [8][]byte
}

func newStream(t testing.TB, conn net.Conn, r *Result, impl gcm.Impl) *stream {
	t.Helper()
	c, err := NewConn(&r.State, impl)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Destroy)
	return &stream{net: conn, c: c, buf: r.State.Unopened}
}

// errCut says that the connection ended without close_notify.
var errCut = errors.New("connection ended without close_notify")

// Read answers KeyUpdates by itself.
func (s *stream) Read(p []byte) (int, error) {
	for len(s.open) == 0 {
		payloads, n, err := s.c.Open(s.buf, s.room[:0])
		for _, b := range payloads {
			s.open = append(s.open, b...)
		}
		s.buf = s.buf[n:]
		if e := s.pay(); e != nil {
			return 0, e
		}
		if len(s.open) > 0 {
			break
		}
		if err != nil {
			var e *Error
			if errors.As(err, &e) && !e.Remote {
				if b, aerr := s.c.AppendAlert(nil, e.Alert); aerr == nil {
					s.net.Write(b)
				}
			}
			return 0, err
		}
		b := make([]byte, 64<<10)
		n, err = s.net.Read(b)
		s.buf = append(s.buf, b[:n]...)
		if errors.Is(err, io.EOF) && n == 0 {
			return 0, errCut
		}
		if err != nil && n == 0 {
			return 0, err
		}
	}
	n := copy(p, s.open)
	s.open = s.open[n:]
	return n, nil
}

// pay sends what is owed.
func (s *stream) pay() error {
	if !s.c.Owes() {
		return nil
	}
	b, err := s.c.AppendOwed(nil)
	if err != nil {
		return err
	}
	_, err = s.net.Write(b)
	return err
}

func (s *stream) Write(p []byte) (int, error) {
	if err := s.pay(); err != nil {
		return 0, err
	}
	b := make([]byte, SealedLen(len(p)))
	if _, err := s.c.SealTo(b, p); err != nil {
		return 0, err
	}
	if _, err := s.net.Write(b); err != nil {
		return 0, err
	}
	return len(p), nil
}

// CloseWrite sends close_notify.
func (s *stream) CloseWrite() error {
	b, err := s.c.AppendAlert(nil, CloseNotify)
	if err != nil {
		return err
	}
	_, err = s.net.Write(b)
	return err
}

// loopback returns both ends of a TCP connection.
func loopback(t testing.TB) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}
