package tap_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/tools/wiretap/tap"
)

const (
	port   = 4433
	spiffe = "spiffe://cluster.local/ns/lab/sa/default"
)

// link is two hosts and what must not be readable between them.
type link struct {
	t              *testing.T
	client, server *lab.Host
	payload        []byte
	chain, key     string // files of the server's certificate
	secrets        []tap.Secret
}

func newLink(t *testing.T) *link {
	testkit.NoLeaks(t)
	l := lab.New(t, lab.Simple(0, 0, 2))
	k := &link{t: t, client: l.Hosts[0], server: l.Hosts[1]}
	rng := mathrand.New(mathrand.NewPCG(1, 2))
	for len(k.payload) < 200_000 {
		k.payload = fmt.Appendf(k.payload, "%016x %016x\n", rng.Uint64(), rng.Uint64())
	}
	der := k.certificate()
	k.secrets = append([]tap.Secret{{Name: "payload", Bytes: k.payload}, {Name: "SPIFFE name", Bytes: []byte("spiffe://")}},
		tap.Certificate("the server's certificate", der)...)
	return k
}

// certificate makes one for the server and returns it.
func (k *link) certificate() []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		k.t.Fatal(err)
	}
	id, err := url.Parse(spiffe)
	if err != nil {
		k.t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "server"}, URIs: []*url.URL{id},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		k.t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		k.t.Fatal(err)
	}
	dir := k.t.TempDir()
	k.chain, k.key = filepath.Join(dir, "chain.pem"), filepath.Join(dir, "key.pem")
	for path, b := range map[string]*pem.Block{k.chain: {Type: "CERTIFICATE", Bytes: der}, k.key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(b), 0o600); err != nil {
			k.t.Fatal(err)
		}
	}
	return der
}

// tap opens a tap on the client's link.
func (k *link) tap(cfg tap.Config) *tap.Tap {
	k.t.Helper()
	cfg.Interface = "eth0"
	tp, err := tap.Open(k.client.Handle(), cfg)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() {
		if err := tp.Close(); err != nil {
			k.t.Error(err)
		}
	})
	return tp
}

// judge stops the tap. The report is shown when the test fails.
func (k *link) judge(tp *tap.Tap, rules tap.Rules) *tap.Report {
	k.t.Helper()
	c, err := tp.Stop()
	if err != nil {
		k.t.Fatal(err)
	}
	r, err := c.Judge(rules)
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() {
		if k.t.Failed() {
			var text strings.Builder
			_ = r.Text(&text)
			k.t.Log(text.String())
		}
	})
	return r
}

// openssl has OpenSSL's client send the payload to OpenSSL's server.
func (k *link) openssl(version string, clientArgs ...string) {
	k.t.Helper()
	to := k.server.At4(port).String()
	s := lab.Start(k.t, k.server.Space, lab.Program{Path: "openssl", Args: []string{"s_server", "-accept", to,
		"-cert", k.chain, "-key", k.key, "-" + version, "-rev", "-quiet"}})
	testkit.Eventually(k.t, testkit.Wait, "openssl's server to listen", func() bool {
		select {
		case <-s.Done():
			k.t.Fatalf("openssl s_server ended: %s", s.Log())
		default:
		}
		return listening(k.server.Space)
	})
	ctx, cancel := context.WithTimeout(k.t.Context(), testkit.Wait)
	defer cancel()
	// Commands at the beginning of a line are for terminals only.
	cmd := k.client.Command(ctx, "openssl", append([]string{"s_client", "-connect", to, "-" + version, "-quiet", "-no_ign_eof", "-nocommands"}, clientArgs...)...)
	cmd.Stdin = bytes.NewReader(k.payload)
	if out, err := cmd.CombinedOutput(); err != nil {
		k.t.Fatalf("openssl s_client: %v\n%s", err, out)
	}
}

func listening(s *lab.Space) bool {
	var text []byte
	err := s.Do(func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/tcp")
		return err
	})
	return err == nil && bytes.Contains(text, fmt.Appendf(nil, ":%04X 00000000:0000 0A", port))
}

// want checks that the report's error has all the words, or is nil for none.
func want(t *testing.T, r *tap.Report, words ...string) {
	t.Helper()
	err := r.Err()
	if len(words) == 0 && err != nil {
		t.Error(err)
	}
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("the report says %v; want %q in it", err, w)
		}
	}
}

func TestLabTLS13WithoutNamePasses(t *testing.T) {
	k := newLink(t)
	tp := k.tap(tap.Config{})
	k.openssl("tls1_3", "-noservername")
	r := k.judge(tp, tap.Rules{Secrets: k.secrets})
	want(t, r)
	if len(r.Connections) != 1 {
		t.Fatalf("%d connections; want 1", len(r.Connections))
	}
	c := r.Connections[0]
	if !c.Encrypted || c.Version != "TLS 1.3" || c.Hello == nil || c.Hello.ServerName != nil || c.Group == "" || c.Suite == "" ||
		c.Up.Sealed < int64(len(k.payload)) || c.Up.Clear+c.Down.Clear != 0 || c.Up.Hello == 0 || c.Down.Hello == 0 ||
		c.Payload != c.Up.Sealed+c.Up.Hello+c.Down.Sealed+c.Down.Hello {
		t.Errorf("connection %+v, hello %+v", c, c.Hello)
	}
}

func TestLabTLS13WithNameSaysSo(t *testing.T) {
	k := newLink(t)
	tp := k.tap(tap.Config{})
	k.openssl("tls1_3", "-servername", "app.example", "-alpn", "h2,http/1.1")
	r := k.judge(tp, tap.Rules{Secrets: k.secrets})
	want(t, r, `names a server: "app.example"`)
	if c := r.Connections[0]; !c.Encrypted || c.Hello.ServerName == nil || *c.Hello.ServerName != "app.example" || strings.Join(c.Hello.ALPN, ",") != "h2,http/1.1" {
		t.Errorf("connection %+v, hello %+v", c, c.Hello)
	}
}

func TestLabTLS12Fails(t *testing.T) {
	k := newLink(t)
	tp := k.tap(tap.Config{})
	k.openssl("tls1_2", "-noservername")
	r := k.judge(tp, tap.Rules{Secrets: k.secrets})
	want(t, r, "TLS 1.2", "(Certificate)", "certificate (DER) is readable", "SPIFFE name is readable")
	if c := r.Connections[0]; c.Encrypted || r.Secrets[0].Finds != 0 {
		t.Errorf("encrypted %t, the payload was found %d times; want false, 0", c.Encrypted, r.Secrets[0].Finds)
	}
}

// connect makes one TCP connection over the link, up to the test's end.
func (k *link) connect() (client, server *net.TCPConn) {
	k.t.Helper()
	l, err := k.server.Listen(k.server.At4(port), lab.Socket{})
	if err != nil {
		k.t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(k.t.Context(), testkit.Wait)
	defer cancel()
	client, err = k.client.Dial(ctx, k.server.At4(port), lab.Socket{})
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { client.Close() })
	if server, err = l.AcceptTCP(); err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { server.Close() })
	for _, c := range []*net.TCPConn{client, server} {
		if err := c.SetDeadline(time.Now().Add(testkit.Wait)); err != nil {
			k.t.Fatal(err)
		}
	}
	return client, server
}

// pass sends b and returns when the other side has read it.
func (k *link) pass(from, to *net.TCPConn, b []byte) {
	k.t.Helper()
	sent := make(chan error, 1)
	go func() { _, err := from.Write(b); sent <- err }()
	if _, err := io.CopyN(io.Discard, to, int64(len(b))); err != nil {
		k.t.Fatal(err)
	}
	if err := <-sent; err != nil {
		k.t.Fatal(err)
	}
}

func TestLabPlaintextFails(t *testing.T) {
	k := newLink(t)
	tp := k.tap(tap.Config{})
	client, server := k.connect()
	k.pass(client, server, k.payload)
	r := k.judge(tp, tap.Rules{Secrets: k.secrets})
	want(t, r, "payload is readable", "up: byte 0: no TLS record", "no encrypted connection")
	if c := r.Connections[0]; c.Up.Clear != int64(len(k.payload)) {
		t.Errorf("%d bytes are clear; want all %d", c.Up.Clear, len(k.payload))
	}
}

// What lies across two packets is in neither of them.
func TestLabSecretAcrossSegments(t *testing.T) {
	k := newLink(t)
	tp := k.tap(tap.Config{})
	client, server := k.connect()
	for _, part := range []string{"name spif", "fe:", "//x ", string(k.payload[100:108]), string(k.payload[108:116])} {
		k.pass(client, server, []byte(part))
	}
	r := k.judge(tp, tap.Rules{Secrets: k.secrets})
	if r.Secrets[0].Finds != 1 || r.Secrets[1].Finds != 1 {
		t.Errorf("the payload was found %d times, the name %d times; want both once", r.Secrets[0].Finds, r.Secrets[1].Finds)
	}
	want(t, r, "payload is readable", "SPIFFE name is readable")
}

func TestLabNothingSeenFails(t *testing.T) {
	k := newLink(t)
	r := k.judge(k.tap(tap.Config{}), tap.Rules{Secrets: k.secrets})
	want(t, r, "no encrypted connection was seen")
}

// Who takes no part may talk in the clear; that makes no capture pass.
func TestLabClearHost(t *testing.T) {
	k := newLink(t)
	tp := k.tap(tap.Config{})
	k.openssl("tls1_3", "-noservername")
	before, err := tp.Mark()
	if err != nil {
		t.Fatal(err)
	}
	client, server := k.other()
	k.pass(client, server, k.payload)
	c, err := tp.Stop()
	if err != nil {
		t.Fatal(err)
	}
	rules := tap.Rules{Secrets: k.secrets, Marks: []int{before}, Clear: []netip.Prefix{netip.PrefixFrom(k.server.Second4, 32)}}
	r, err := c.Judge(rules)
	if err != nil {
		t.Fatal(err)
	}
	want(t, r)
	if w := r.Windows; len(w) != 2 || w[0].Sealed < int64(len(k.payload)) || w[0].Clear != 0 || w[1].Clear != 0 {
		t.Errorf("windows %+v", w)
	}
	rules.Clear = nil
	if r, err = c.Judge(rules); err != nil {
		t.Fatal(err)
	}
	want(t, r, "payload is readable")
	if w := r.Windows; w[1].Clear != int64(len(k.payload)) || w[0].Finds != 0 || w[1].Finds == 0 {
		t.Errorf("windows %+v", w)
	}
}

// other connects to the server's second address.
func (k *link) other() (client, server *net.TCPConn) {
	k.t.Helper()
	first := k.server.Addr4
	k.server.Addr4 = k.server.Second4
	defer func() { k.server.Addr4 = first }()
	return k.connect()
}

// The kernel has no room while nobody empties the ring.
func TestLabDroppedPacketsFail(t *testing.T) {
	k := newLink(t)
	tp, start, err := tap.OpenIdle(k.client.Handle(), tap.Config{Interface: "eth0", RingBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	client, server := k.connect()
	k.pass(client, server, make([]byte, 16<<20))
	start()
	r := k.judge(tp, tap.Rules{})
	want(t, r, "the kernel dropped")
	if r.Dropped == 0 {
		t.Error("nothing was dropped")
	}
}

func TestLabFullCaptureFails(t *testing.T) {
	k := newLink(t)
	tp := k.tap(tap.Config{MaxBytes: 100_000})
	k.openssl("tls1_3", "-noservername")
	r := k.judge(tp, tap.Rules{})
	want(t, r, "the capture is full")
	if r.Left == 0 {
		t.Error("nothing was left out")
	}
}

// A capture that was kept in a file is judged like the one that was taken.
func TestLabFileSaysTheSame(t *testing.T) {
	k := newLink(t)
	tp := k.tap(tap.Config{})
	k.openssl("tls1_3", "-noservername")
	c, err := tp.Stop()
	if err != nil {
		t.Fatal(err)
	}
	var file, first, second bytes.Buffer
	if err := c.Write(&file); err != nil {
		t.Fatal(err)
	}
	again, err := tap.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	for c, to := range map[*tap.Capture]*bytes.Buffer{c: &first, again: &second} {
		r, err := c.Judge(tap.Rules{Secrets: k.secrets})
		if err != nil {
			t.Fatal(err)
		}
		want(t, r)
		if err := r.JSON(to); err != nil {
			t.Fatal(err)
		}
	}
	if first.String() != second.String() {
		t.Errorf("the capture says\n%s\nthe file says\n%s", first.String(), second.String())
	}
}

func TestLabTapOfNoLink(t *testing.T) {
	k := newLink(t)
	if _, err := tap.Open(k.client.Handle(), tap.Config{Interface: "absent"}); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("tap of a link that is not there: %v", err)
	}
}
