package tlsrec

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/gcm"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// A program is openssl s_client or s_server, with what it was told and has said.
type program struct {
	stdin io.WriteCloser

	mu  sync.Mutex
	out bytes.Buffer
}

// Write takes what the program says.
func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *program) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// tell writes to the program's input. It reads commands at the start of what one
// read brings, so the test waits for the effect of one before the next.
func (p *program) tell(t testing.TB, s string) {
	t.Helper()
	if _, err := io.WriteString(p.stdin, s); err != nil {
		t.Fatalf("tell openssl %.20q: %v\n%s", s, err, p.said())
	}
}

// waitFor waits until the program has said what re matches.
func (p *program) waitFor(t testing.TB, re string) []string {
	t.Helper()
	var m []string
	testkit.Eventually(t, testkit.Wait, "openssl to say "+re, func() bool {
		m = regexp.MustCompile(re).FindStringSubmatch(p.said())
		return m != nil
	})
	return m
}

// openssl starts the program. Where it is missing the test is skipped, or fails where
// a lab is required.
func openssl(t testing.TB, args ...string) *program {
	t.Helper()
	path, err := exec.LookPath("openssl")
	switch {
	case err == nil:
	case os.Getenv("LAB_REQUIRED") != "":
		t.Fatalf("lab required, but: %v; make deps installs it", err)
	default:
		t.Skipf("no openssl here: %v", err)
	}
	cmd := exec.Command(path, args...)
	p := &program{}
	cmd.Stdout, cmd.Stderr = p, p
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("openssl %s said:\n%.4000s", strings.Join(args, " "), p.said())
		}
	})
	return p
}

// pemFiles writes c for openssl and returns the arguments that name it.
func pemFiles(t testing.TB, c tls.Certificate) []string {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "both.pem")
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"-cert", file, "-key", file}
}

// A tap keeps what was read.
type tap struct {
	net.Conn
	read []byte
}

func (c *tap) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read = append(c.read, p[:n]...)
	return n, err
}

// withOpenSSL does a handshake of ours in role with openssl, which gets more
// arguments.
func withOpenSSL(t testing.TB, role Role, s Suite, more ...string) (*stream, *program) {
	t.Helper()
	g, cfg := newGate(t, Limits{PanicEnds: true}), config(t)
	args := append(pemFiles(t, certificate(t)), "-tls1_3", "-ciphersuites", s.String(), "-alpn", "h2")
	args = append(args, more...)
	var (
		p    *program
		conn net.Conn
		err  error
	)
	if role == Client {
		p = openssl(t, append([]string{"s_server", "-accept", "127.0.0.1:0", "-Verify", "1"}, args...)...)
		conn, err = net.Dial("tcp", p.waitFor(t, `ACCEPT (127\.0\.0\.1:\d+)`)[1])
	} else {
		l, lerr := net.Listen("tcp", "127.0.0.1:0")
		if lerr != nil {
			t.Fatal(lerr)
		}
		defer l.Close()
		l.(*net.TCPListener).SetDeadline(time.Now().Add(testkit.Wait))
		p = openssl(t, append([]string{"s_client", "-connect", l.Addr().String()}, args...)...)
		conn, err = l.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	r, err := shake(g, role, cfg, conn)
	if err != nil {
		t.Fatalf("%v\n%s", err, p.said())
	}
	if r.State.Suite != s || r.Protocol != "h2" || len(r.Certificates) != 1 {
		t.Fatalf("settled on %v, %q, %d certificates", r.State.Suite, r.Protocol, len(r.Certificates))
	}
	conn.SetDeadline(time.Now().Add(testkit.Wait))
	return newStream(t, &tap{conn, bytes.Clone(r.State.Unopened)}, r, gcm.Auto), p
}

// expect reads exactly want.
func (s *stream) expect(t testing.TB, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(s, got); err != nil || string(got) != want {
		t.Fatalf("read %d bytes, %.40q, %v; want %d, %.40q", n, got[:n], err, len(want), want)
	}
}

// digits are n bytes that openssl does not take for a command.
func digits(n int) string {
	return strings.Repeat("0123456789abcde\n", n/16+1)[:n]
}

func eachOpenSSL(t *testing.T, fn func(t *testing.T, role Role, s Suite)) {
	testkit.NoLeaks(t)
	for _, role := range []Role{Client, Server} {
		for _, s := range Suites() {
			t.Run(fmt.Sprintf("%v/%v", role, s), func(t *testing.T) { fn(t, role, s) })
		}
	}
}

// TestLabOpenSSLKeyUpdates changes keys by openssl's commands K and k and by requests of
// ours, in the middle of data both ways, behind tickets, and ends by close_notify. With
// CAPTURE set it writes what openssl sent to testdata/openssl.
func TestLabOpenSSLKeyUpdates(t *testing.T) {
	eachOpenSSL(t, func(t *testing.T, role Role, suite Suite) {
		args := []string{"-record_padding", "256"}
		if role == Client {
			args = append(args, "-num_tickets", "3")
		}
		s, p := withOpenSSL(t, role, suite, args...)
		first := s.c.copyState()
		var received strings.Builder
		say := func(text string) {
			t.Helper()
			p.tell(t, text)
			s.expect(t, text)
			received.WriteString(text)
		}
		hear := func(text string) {
			t.Helper()
			if _, err := s.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			p.waitFor(t, text)
		}
		say("1 one\n")
		hear("1 eins")

		for i, command := range []string{"k", "K", "k", "K"} {
			before := s.c.copyState()
			p.tell(t, command+"\n")
			// The command's record arrives without data behind it.
			testkit.Eventually(t, testkit.Wait, "KeyUpdate of openssl", func() bool { return s.step(t) && s.c.read.secret != before.Read.Secret })
			if answered := s.c.write.secret != before.Write.Secret; answered != (command == "K") {
				t.Errorf("%s: we changed our key: %v", command, answered)
			}
			hear(fmt.Sprintf("2 zwei %d", i))
			say(fmt.Sprintf("2 two %d\n", i))
		}
		for i := range 3 {
			before := s.c.copyState()
			s.c.RequestUpdate(true)
			hear(fmt.Sprintf("3 drei %d", i))
			say(fmt.Sprintf("3 three %d\n", i))
			if s.c.write.secret == before.Write.Secret || s.c.read.secret == before.Read.Secret {
				t.Error("keys are the same after a request")
			}
		}
		// s_client says close_notify when it quits; s_server answers ours.
		if role == Server {
			p.tell(t, "Q\n")
		} else if err := s.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if rest, err := io.ReadAll(s); err != nil || len(rest) > 0 {
			t.Errorf("at the end: %q, %v; want close_notify", rest, err)
		}
		if os.Getenv("CAPTURE") != "" {
			capture(t, role, &first, s.net.(*tap).read, received.String())
		}
	})
}

// step reads once and deals with what came, which has no data, and reports that.
func (s *stream) step(t testing.TB) bool {
	t.Helper()
	b := make([]byte, 64<<10)
	n, err := s.net.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	s.buf = append(s.buf, b[:n]...)
	payloads, n, err := s.c.Open(s.buf, s.room[:0])
	if err != nil || len(payloads) > 0 {
		t.Fatalf("%d payloads, %v", len(payloads), err)
	}
	s.buf = s.buf[n:]
	if err := s.pay(); err != nil {
		t.Fatal(err)
	}
	return true
}

// TestLabOpenSSLRecordSizes moves bulk both ways in records of many sizes.
func TestLabOpenSSLRecordSizes(t *testing.T) {
	eachOpenSSL(t, func(t *testing.T, role Role, suite Suite) {
		for _, args := range [][]string{
			nil,
			{"-max_send_frag", "512"},
			{"-split_send_frag", "777", "-max_send_frag", "1000"},
			{"-record_padding", "5000"},
		} {
			s, p := withOpenSSL(t, role, suite, args...)
			text := digits(200 << 10)
			told := make(chan error, 1)
			go func() {
				_, err := io.WriteString(p.stdin, text)
				told <- err
			}()
			s.expect(t, text)
			if err := testkit.Receive(t, testkit.Wait, "openssl's input", told); err != nil {
				t.Error(err)
			}
			// Back, in pieces from 1 byte to many records.
			text = "<begin>" + text + "<end>"
			for rest := text; len(rest) > 0; {
				n := min(len(rest), 1+(len(text)-len(rest))/2)
				if _, err := s.Write([]byte(rest[:n])); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			p.waitFor(t, "<end>")
			if !strings.Contains(p.said(), text) {
				t.Error("openssl got other bytes")
			}
			if err := s.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if rest, err := io.ReadAll(s); err != nil || len(rest) > 0 {
				t.Errorf("at the end: %q, %v; want close_notify", rest, err)
			}
		}
	})
}

// TestLabOpenSSLRefuses sends openssl a record that was changed, and wants its alert.
func TestLabOpenSSLRefuses(t *testing.T) {
	eachOpenSSL(t, func(t *testing.T, role Role, suite Suite) {
		s, _ := withOpenSSL(t, role, suite)
		b := sealed(t, s.c, []byte("x"))
		b[len(b)-1] ^= 1
		if _, err := s.net.Write(b); err != nil {
			t.Fatal(err)
		}
		_, err := io.ReadAll(s)
		if e, ok := errors.AsType[*Error](err); !ok || !e.Remote || e.Alert != BadRecordMAC {
			t.Errorf("got %v", err)
		}
	})
}
