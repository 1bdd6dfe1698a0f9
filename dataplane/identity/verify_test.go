package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"
)

// wantFault fails t unless err is a Fault for this reason, with all of texts in it.
func wantFault(t *testing.T, err error, want Reason, texts ...string) {
	t.Helper()
	f, ok := errors.AsType[*Fault](err)
	if !ok || f.Reason != want {
		t.Fatalf("got %v; want a fault %v", err, want)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not tell %q", err, text)
		}
	}
}

// forge signs what a test wants signed, by ca or by another issuer.
type forge struct {
	t   *testing.T
	ca  *CA
	key *ecdsa.PrivateKey
}

func newForge(t *testing.T, ca *CA) *forge {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &forge{t, ca, key}
}

// leaf is a good certificate of web, changed.
func (f *forge) leaf(change func(c *x509.Certificate)) *x509.Certificate {
	return f.under(f.ca.root, f.ca.key, change)
}

func (f *forge) under(parent *x509.Certificate, key *ecdsa.PrivateKey, change func(c *x509.Certificate)) *x509.Certificate {
	f.t.Helper()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(0x5eed),
		NotBefore:             noon().Add(-time.Hour),
		NotAfter:              noon().Add(time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		URIs:                  uris("spiffe://cluster.local/ns/shop/sa/web"),
	}
	change(template)
	cert, err := sign(template, parent, f.key, key)
	if err != nil {
		f.t.Fatal(err)
	}
	return cert
}

// uris parses URIs that are well formed.
func uris(all ...string) []*url.URL {
	var list []*url.URL
	for _, s := range all {
		u, err := url.Parse(s)
		if err != nil {
			panic(err)
		}
		list = append(list, u)
	}
	return list
}

// A peer is judged by both roles; what differs between them is a case of its own.
func TestVerify(t *testing.T) {
	ca, other := newCA(t, "cluster.local"), newCA(t, "cluster.local")
	us := mint(t, ca, named("cluster.local", "cart"))
	web := named("cluster.local", "web")
	f := newForge(t, ca)
	intermediate := func(change func(*x509.Certificate)) (*x509.Certificate, *ecdsa.PrivateKey) {
		g := newForge(t, ca)
		root := *ca.root
		root.MaxPathLenZero, root.MaxPathLen = false, -1 // so that crypto/x509 signs; peers look at the real one
		cert := g.under(&root, ca.key, func(c *x509.Certificate) {
			c.IsCA, c.KeyUsage, c.ExtKeyUsage, c.URIs = true, x509.KeyUsageCertSign, nil, nil
			c.Subject = pkix.Name{CommonName: "between"}
			change(c)
		})
		return cert, g.key
	}
	between, betweenKey := intermediate(func(*x509.Certificate) {})
	stale, staleKey := intermediate(func(c *x509.Certificate) { c.NotAfter = noon().Add(-time.Minute) })
	sameName := newForge(t, other)
	type certs = []*x509.Certificate
	for _, tt := range []struct {
		name           string
		chain          certs
		server, client Reason // Reasons: taken
		texts          []string
	}{
		{"good", certs{f.leaf(func(*x509.Certificate) {})}, Reasons, Reasons, nil},
		{"none", nil, Absent, Absent, []string{"no certificate"}},
		{"right name under another root", certs{sameName.leaf(func(*x509.Certificate) {})}, Unsigned, Unsigned,
			[]string{"spiffe://cluster.local/ns/shop/sa/web", "trusted are", fingerprint(ca.root)}},
		{"another root shown behind it", certs{sameName.leaf(func(*x509.Certificate) {}), other.root}, Unsigned, Unsigned, nil},
		{"signed by a workload", certs{f.under(us.leaf, us.shown.PrivateKey.(*ecdsa.PrivateKey), func(*x509.Certificate) {}), us.leaf}, Unsigned, Unsigned, nil},
		{"right root, for clients", certs{f.leaf(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} })}, WrongUsage, Reasons,
			[]string{"not meant for a server"}},
		{"right root, for servers", certs{f.leaf(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })}, Reasons, WrongUsage,
			[]string{"not meant for a client"}},
		{"right root, for code", certs{f.leaf(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning} })}, WrongUsage, WrongUsage, nil},
		{"right root, no usage", certs{f.leaf(func(c *x509.Certificate) { c.ExtKeyUsage = nil })}, WrongUsage, WrongUsage, nil},
		{"right root, any usage", certs{f.leaf(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageAny} })}, WrongUsage, WrongUsage, nil},
		{"not for signatures", certs{f.leaf(func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageKeyAgreement })}, WrongUsage, WrongUsage, []string{"signatures"}},
		{"an authority", certs{f.leaf(func(c *x509.Certificate) { c.IsCA = true; c.KeyUsage |= x509.KeyUsageCertSign })}, WrongUsage, WrongUsage, []string{"authority"}},
		{"expired", certs{f.leaf(func(c *x509.Certificate) { c.NotAfter = noon().Add(-5 * time.Minute) })}, Expired, Expired,
			[]string{"expired 5m0s ago", "by the clock of its issuer it is good from 2026-06-01T11:00:00Z to 2026-06-01T11:55:00Z", "by the clock of this node it is 2026-06-01T12:00:00Z"}},
		{"not yet valid", certs{f.leaf(func(c *x509.Certificate) { c.NotBefore = noon().Add(5 * time.Minute) })}, NotYetValid, NotYetValid,
			[]string{"not valid for another 5m0s", "by the clock of its issuer it is good from 2026-06-01T12:05:00Z to 2026-06-01T13:00:00Z", "by the clock of this node it is 2026-06-01T12:00:00Z"}},
		{"too deep", certs{f.under(between, betweenKey, func(*x509.Certificate) {}), between}, Malformed, Malformed, nil},
		{"expired above", certs{f.under(stale, staleKey, func(*x509.Certificate) {}), stale}, Expired, Expired, []string{`"CN=between"`, "2026-06-01T11:59:00Z"}},
		{"missing between", certs{f.under(between, betweenKey, func(*x509.Certificate) {})}, Unsigned, Unsigned, nil},
		{"no name", certs{f.leaf(func(c *x509.Certificate) { c.URIs = nil; c.DNSNames = []string{"web.shop"} })}, Nameless, Nameless, nil},
		{"not a workload's name", certs{f.leaf(func(c *x509.Certificate) { c.URIs = uris("spiffe://cluster.local/web", "https://example.org/") })}, Nameless, Nameless, nil},
		{"several names", certs{f.leaf(func(c *x509.Certificate) {
			c.URIs = uris("spiffe://cluster.local/ns/shop/sa/web", "spiffe://cluster.local/ns/shop/sa/cart")
		})}, SeveralNames, SeveralNames, []string{"sa/web, spiffe://cluster.local/ns/shop/sa/cart"}},
		{"one name among others", certs{f.leaf(func(c *x509.Certificate) {
			c.DNSNames = []string{"web.shop"}
			c.URIs = uris("https://example.org/", "spiffe://cluster.local/ns/shop/sa/web", "spiffe://cluster.local/web")
		})}, Reasons, Reasons, nil},
		{"another workload", certs{f.leaf(func(c *x509.Certificate) { c.URIs = uris("spiffe://cluster.local/ns/shop/sa/pay") })}, WrongName, Reasons,
			[]string{"sa/pay; expected spiffe://cluster.local/ns/shop/sa/x, spiffe://cluster.local/ns/shop/sa/web"}},
		{"another trust domain", certs{f.leaf(func(c *x509.Certificate) { c.URIs = uris("spiffe://example.org/ns/shop/sa/web") })}, WrongName, WrongDomain,
			[]string{"spiffe://example.org/ns/shop/sa/web"}},
		{"a fragment", certs{f.leaf(func(c *x509.Certificate) { c.URIs = uris("spiffe://cluster.local/ns/shop/sa/web#x") })}, WrongName, Reasons, nil},
		{"an escaped slash", certs{f.leaf(func(c *x509.Certificate) { c.URIs = uris("spiffe://cluster.local/ns/shop/sa/we%2Fb") })}, WrongName, Reasons, []string{"sa/we%2Fb"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := us.VerifyServer(tt.chain, []ID{named("cluster.local", "x"), web})
			judged(t, "as server", err, tt.server, tt.texts)
			_, err = us.VerifyClient(tt.chain)
			judged(t, "as client", err, tt.client, tt.texts)
		})
	}
}

func judged(t *testing.T, as string, err error, want Reason, texts []string) {
	t.Helper()
	if want == Reasons {
		if err != nil {
			t.Errorf("%s: %v", as, err)
		}
		return
	}
	f, ok := errors.AsType[*Fault](err)
	if !ok || f.Reason != want {
		t.Errorf("%s: got %v; want a fault %v", as, err, want)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) && !strings.Contains(text, "not meant for") {
			t.Errorf("%s: %q does not tell %q", as, err, text)
		}
	}
}

// An empty list of expected identities lets nobody through.
func TestVerifyServerExpectsNobody(t *testing.T) {
	ca := newCA(t, "cluster.local")
	us := mint(t, ca, named("cluster.local", "cart"))
	_, err := us.VerifyServer([]*x509.Certificate{us.leaf}, nil)
	wantFault(t, err, WrongName, "expected nobody")
}

// A root whose own time is over signs nothing that is taken.
func TestVerifyRootOutOfTime(t *testing.T) {
	ca := newCA(t, "cluster.local")
	web := newForge(t, ca).leaf(func(c *x509.Certificate) { c.NotAfter = noon().Add(10 * 365 * 24 * time.Hour) })
	us := mint(t, ca, named("cluster.local", "cart"))
	late := *us
	late.now = func() time.Time { return noon().Add(2 * 365 * 24 * time.Hour) }
	_, err := late.VerifyClient([]*x509.Certificate{web})
	wantFault(t, err, Expired, ca.root.Subject.String())
}

func TestReasons(t *testing.T) {
	seen := map[string]bool{}
	for r := range Reasons {
		s := r.String()
		if seen[s] || strings.Contains(s, " ") {
			t.Errorf("reason %d is called %q", r, s)
		}
		seen[s] = true
	}
}
