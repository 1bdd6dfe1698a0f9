package identity

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// A Certificate is what one workload shows, the key that goes with it, and the roots
// by which it judges others; immutable.
type Certificate struct {
	id    ID
	leaf  *x509.Certificate
	shown tls.Certificate // leaf and intermediates, never roots
	roots *Bundle
	now   func() time.Time

	// Made once: each handshake works on a copy of its own.
	server, serverClassic *tls.Config
}

// NewCertificate makes a Certificate of a chain, the workload's own certificate
// first and no root in it, its key, and the roots that came with it. now is the
// node's clock, by which peers are judged; nil means time.Now.
func NewCertificate(chain []*x509.Certificate, key crypto.Signer, roots *Bundle, now func() time.Time) (*Certificate, error) {
	if len(chain) == 0 {
		return nil, errors.New("certificate chain is empty")
	}
	if now == nil {
		now = time.Now
	}
	id, err := Name(chain[0])
	if err != nil {
		return nil, err
	}
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(chain[0].PublicKey) {
		return nil, fmt.Errorf("certificate %s: the key is of another one", describe(chain[0]))
	}
	c := &Certificate{
		id:    id,
		leaf:  chain[0],
		shown: tls.Certificate{PrivateKey: key, Leaf: chain[0]},
		roots: roots,
		now:   now,
	}
	for _, cert := range chain {
		c.shown.Certificate = append(c.shown.Certificate, cert.Raw)
	}
	c.makeServer()
	return c, nil
}

// ID returns whom the certificate names.
func (c *Certificate) ID() ID { return c.id }

// NotBefore and NotAfter bound the time in which the certificate is good.
func (c *Certificate) NotBefore() time.Time { return c.leaf.NotBefore }

// NotAfter is the last moment in which the certificate is good.
func (c *Certificate) NotAfter() time.Time { return c.leaf.NotAfter }

// Serial returns its number as certificates are told apart in logs.
func (c *Certificate) Serial() string { return fmt.Sprintf("%x", c.leaf.SerialNumber) }

// Roots returns the roots by which peers are judged.
func (c *Certificate) Roots() *Bundle { return c.roots }

// halfLife is when the certificate should be renewed.
func (c *Certificate) halfLife() time.Time {
	return c.leaf.NotBefore.Add(c.leaf.NotAfter.Sub(c.leaf.NotBefore) / 2)
}

// checkTime returns a Fault when the certificate isn't good at the time at.
func (c *Certificate) checkTime(at time.Time) error {
	if at.Before(c.leaf.NotBefore) || at.After(c.leaf.NotAfter) {
		return timeFault(c.leaf, at)
	}
	return nil
}

// PEM returns the chain and the key (PKCS #8) as text.
func (c *Certificate) PEM() (chain, key []byte, err error) {
	for _, der := range c.shown.Certificate {
		chain = appendPEM(chain, der)
	}
	key, err = keyPEM(c.shown.PrivateKey)
	return chain, key, err
}
