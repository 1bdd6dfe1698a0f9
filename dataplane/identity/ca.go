package identity

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"time"
)

const (
	// DefaultLifetime is how long a certificate of the built-in CA is good.
	DefaultLifetime = time.Hour

	// DefaultRootLifetime is how long its root is good.
	DefaultRootLifetime = 365 * 24 * time.Hour

	// backdate is by how much certificates start early, for peers whose clocks
	// are behind.
	backdate = time.Minute

	// minLifetime leaves a certificate some good time beside what is backdated.
	minLifetime = 2 * time.Minute
)

// A CA is the built-in certificate authority: one root, its key, and one trust
// domain for which it issues; immutable.
type CA struct {
	root   *x509.Certificate
	key    *ecdsa.PrivateKey
	roots  *Bundle // its own and others that are trusted beside it
	domain string
}

// NewCA makes a root and a key for trustDomain, good from now on for lifetime; 0
// means DefaultRootLifetime.
func NewCA(trustDomain string, lifetime time.Duration, now time.Time) (*CA, error) {
	if err := (ID{TrustDomain: trustDomain, Namespace: "x", ServiceAccount: "x"}).Check(); err != nil {
		return nil, fmt.Errorf("trust domain %q: %w", trustDomain, err)
	}
	if lifetime == 0 {
		lifetime = DefaultRootLifetime
	}
	if lifetime < minLifetime {
		return nil, fmt.Errorf("lifetime of the root is %v; at least %v are needed", lifetime, minLifetime)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a root key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{Organization: []string{"sluice"}, CommonName: fmt.Sprintf("root of %s %x", trustDomain, serial.Bytes()[:4])},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(lifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
		URIs:                  []*url.URL{{Scheme: "spiffe", Host: trustDomain}},
	}
	root, err := sign(template, template, key, key)
	if err != nil {
		return nil, fmt.Errorf("make a root certificate: %w", err)
	}
	roots, err := NewBundle(root)
	if err != nil {
		return nil, err
	}
	return &CA{root: root, key: key, roots: roots, domain: trustDomain}, nil
}

// TrustDomain returns the trust domain for which the CA issues.
func (ca *CA) TrustDomain() string { return ca.domain }

// Root returns the CA's own root certificate.
func (ca *CA) Root() *x509.Certificate { return ca.root }

// Roots returns the roots that come with each certificate: the CA's own, and others
// that its directory has.
func (ca *CA) Roots() *Bundle { return ca.roots }

// Issue makes a key and a certificate for id, good for lifetime; 0 means
// DefaultLifetime. It never outlives the root. now is the clock that the certificate
// judges peers by; nil means time.Now.
func (ca *CA) Issue(id ID, lifetime time.Duration, now func() time.Time) (*Certificate, error) {
	if now == nil {
		now = time.Now
	}
	at := now()
	if lifetime == 0 {
		lifetime = DefaultLifetime
	}
	switch err := id.Check(); {
	case err != nil:
		return nil, fmt.Errorf("issue: %w", err)
	case id.TrustDomain != ca.domain:
		return nil, fmt.Errorf("issue for %v: this authority is of trust domain %q", id, ca.domain)
	case lifetime < minLifetime:
		return nil, fmt.Errorf("issue for %v: a lifetime of %v is too short; at least %v are needed", id, lifetime, minLifetime)
	case at.Before(ca.root.NotBefore) || at.After(ca.root.NotAfter):
		return nil, fmt.Errorf("issue for %v: root: %w", id, timeFault(ca.root, at))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("issue for %v: make a key: %w", id, err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial, // no subject, so the names are critical
		NotBefore:             later(at.Add(-backdate), ca.root.NotBefore),
		NotAfter:              earlier(at.Add(lifetime), ca.root.NotAfter),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		URIs:                  []*url.URL{{Scheme: "spiffe", Host: id.TrustDomain, Path: "/ns/" + id.Namespace + "/sa/" + id.ServiceAccount}},
	}
	leaf, err := sign(template, ca.root, key, ca.key)
	if err != nil {
		return nil, fmt.Errorf("issue for %v: %w", id, err)
	}
	return NewCertificate([]*x509.Certificate{leaf}, key, ca.roots, now)
}

// sign makes the certificate that template describes, of the owner of key, by the
// owner of by.
func sign(template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// newSerial returns a number that no other certificate has.
func newSerial() (*big.Int, error) {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	b[0] = b[0]&0x7f | 0x40 // positive, and of one length
	return new(big.Int).SetBytes(b), nil
}

// domainOf returns the trust domain that a root of ours is for.
func domainOf(root *x509.Certificate) (string, error) {
	for _, u := range root.URIs {
		if u.Scheme == "spiffe" && u.Host != "" && u.Path == "" {
			return u.Host, nil
		}
	}
	return "", errors.New("root certificate names no trust domain; make one with `sluice ca init`")
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
