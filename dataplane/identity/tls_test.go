package identity

import (
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/internal/testkit"
)

// noon is where the tests' clock stands.
func noon() time.Time { return time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC) }

// newCA makes a root at noon.
func newCA(t testing.TB, domain string) *CA {
	t.Helper()
	ca, err := NewCA(domain, 0, noon())
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// mint issues a certificate at noon.
func mint(t testing.TB, ca *CA, id ID) *Certificate {
	t.Helper()
	c, err := ca.Issue(id, 0, noon)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func named(domain, account string) ID {
	return ID{TrustDomain: domain, Namespace: "shop", ServiceAccount: account}
}

// shook is what both sides of a handshake have of it.
type shook struct {
	client, server       tls.ConnectionState
	clientErr, serverErr error
}

// shake lets both ends shake hands over a loopback connection.
func shake(t testing.TB, client, server *tls.Config) shook {
	t.Helper()
	var s shook
	l := testkit.ListenTCP(t, testkit.TCPOptions{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			s.serverErr = err
			return
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(testkit.Wait))
		srv := tls.Server(conn, server)
		if s.serverErr = srv.Handshake(); s.serverErr == nil {
			_, s.serverErr = srv.Write([]byte{1})
		}
		s.server = srv.ConnectionState()
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(testkit.Wait))
	cl := tls.Client(conn, client)
	if s.clientErr = cl.Handshake(); s.clientErr == nil {
		_, s.clientErr = cl.Read(make([]byte, 1)) // the server has judged by then
	}
	s.client = cl.ConnectionState()
	conn.Close()
	testkit.Receive(t, testkit.Wait, "the server's end", closedAsValue(done))
	return s
}

// closedAsValue gives one value when done is closed.
func closedAsValue(done chan struct{}) <-chan bool {
	c := make(chan bool, 1)
	go func() { <-done; c <- true }()
	return c
}

func TestHandshake(t *testing.T) {
	testkit.NoLeaks(t)
	ca := newCA(t, "cluster.local")
	web, cart := mint(t, ca, named("cluster.local", "web")), mint(t, ca, named("cluster.local", "cart"))
	var hello *tls.ClientHelloInfo
	server := cart.Server().Clone()
	choose := server.GetConfigForClient
	server.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) { hello = h; return choose(h) }
	s := shake(t, web.Client([]ID{named("cluster.local", "other"), cart.ID()}), server)
	if s.clientErr != nil || s.serverErr != nil {
		t.Fatalf("client: %v; server: %v", s.clientErr, s.serverErr)
	}
	if s.client.Version != tls.VersionTLS13 || s.client.NegotiatedProtocol != "h2" || s.client.DidResume {
		t.Errorf("version %#x, protocol %q, resumed %v", s.client.Version, s.client.NegotiatedProtocol, s.client.DidResume)
	}
	if hello.ServerName != "" {
		t.Errorf("server name %q was sent", hello.ServerName)
	}
	if !slices.Equal(hello.SupportedVersions, []uint16{tls.VersionTLS13}) {
		t.Errorf("versions %x offered", hello.SupportedVersions)
	}
	if id, err := Name(s.server.PeerCertificates[0]); err != nil || id != web.ID() {
		t.Errorf("the server saw %v, %v", id, err)
	}
	if n := len(s.client.PeerCertificates); n != 1 {
		t.Errorf("%d certificates shown, the root among them?", n)
	}
}

// A client that prefers something else is not asked for the hybrid group, which
// would cost it a round trip.
func TestGroups(t *testing.T) {
	ca := newCA(t, "cluster.local")
	web, cart := mint(t, ca, named("cluster.local", "web")), mint(t, ca, named("cluster.local", "cart"))
	for _, tt := range []struct {
		name  string
		offer []tls.CurveID
		want  tls.CurveID
	}{
		{"ours", nil, tls.X25519MLKEM768},
		{"classic", []tls.CurveID{tls.X25519}, tls.X25519},
		{"P-256 only", []tls.CurveID{tls.CurveP256}, tls.CurveP256},
		{"hybrid only", []tls.CurveID{tls.X25519MLKEM768}, tls.X25519MLKEM768},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client := web.Client([]ID{cart.ID()})
			if tt.offer != nil {
				client.CurvePreferences = tt.offer
			}
			s := shake(t, client, cart.Server())
			if s.clientErr != nil || s.serverErr != nil {
				t.Fatalf("client: %v; server: %v", s.clientErr, s.serverErr)
			}
			if s.client.CurveID != tt.want || s.client.HelloRetryRequest {
				t.Errorf("settled on %v, asked again %v; want %v at once", s.client.CurveID, s.client.HelloRetryRequest, tt.want)
			}
		})
	}
	// Go's client orders the groups itself, so the rule for one that lists the
	// hybrid group last, as ztunnel, is asked directly.
	for _, tt := range []struct {
		offer  []tls.CurveID
		hybrid bool
	}{
		{[]tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.X25519MLKEM768}, false},
		{[]tls.CurveID{tls.X25519MLKEM768, tls.X25519}, true},
		{nil, false},
	} {
		cfg, err := cart.Server().GetConfigForClient(&tls.ClientHelloInfo{SupportedCurves: tt.offer})
		if err != nil {
			t.Fatal(err)
		}
		if cfg == nil {
			cfg = cart.Server()
		}
		if got := slices.Contains(cfg.CurvePreferences, tls.X25519MLKEM768); got != tt.hybrid {
			t.Errorf("to a client that lists %v, the hybrid group is offered: %v", tt.offer, got)
		}
		if cfg.ClientAuth != tls.RequireAnyClientCert || cfg.VerifyConnection == nil || !cfg.SessionTicketsDisabled {
			t.Errorf("to a client that lists %v: no certificate demanded, or tickets", tt.offer)
		}
	}
}

// What TLS itself refuses.
func TestHandshakeRefused(t *testing.T) {
	ca := newCA(t, "cluster.local")
	web, cart := mint(t, ca, named("cluster.local", "web")), mint(t, ca, named("cluster.local", "cart"))
	for _, tt := range []struct {
		name   string
		change func(client *tls.Config)
		want   string // in the server's error
	}{
		{"no certificate", func(c *tls.Config) {
			c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &tls.Certificate{}, nil }
		}, "didn't provide a certificate"},
		{"TLS 1.2", func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12 }, "unsupported versions"},
		{"another protocol", func(c *tls.Config) { c.NextProtos = []string{"imap"} }, "unsupported application protocols"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client := web.Client([]ID{cart.ID()})
			tt.change(client)
			s := shake(t, client, cart.Server())
			if s.clientErr == nil || s.serverErr == nil || !strings.Contains(s.serverErr.Error(), tt.want) {
				t.Errorf("client: %v; server: %v; want %q", s.clientErr, s.serverErr, tt.want)
			}
		})
	}
}

// The settings judge a peer, in both roles: crypto/tls alone would take anybody.
func TestHandshakeJudges(t *testing.T) {
	ours, theirs := newCA(t, "cluster.local"), newCA(t, "cluster.local")
	web, cart := mint(t, ours, named("cluster.local", "web")), mint(t, ours, named("cluster.local", "cart"))
	false1, false2 := mint(t, theirs, web.ID()), mint(t, theirs, cart.ID())
	for _, tt := range []struct {
		name           string
		client, server *Certificate
		expected       ID
		byServer       Reason // Reasons: by the client
		byClient       Reason
	}{
		{"server under another root", web, false2, cart.ID(), Reasons, Unsigned},
		{"client under another root", false1, cart, cart.ID(), Unsigned, Reasons},
		{"another server", web, cart, named("cluster.local", "pay"), Reasons, WrongName},
	} {
		t.Run(tt.name, func(t *testing.T) {
			client := tt.client.Client([]ID{tt.expected})
			if tt.byServer != Reasons { // so that the client comes to be judged
				client.VerifyConnection = func(tls.ConnectionState) error { return nil }
			}
			s := shake(t, client, tt.server.Server())
			if s.clientErr == nil || s.serverErr == nil {
				t.Fatalf("client: %v; server: %v", s.clientErr, s.serverErr)
			}
			if tt.byServer != Reasons {
				wantFault(t, s.serverErr, tt.byServer)
			} else {
				wantFault(t, s.clientErr, tt.byClient)
			}
		})
	}
}
