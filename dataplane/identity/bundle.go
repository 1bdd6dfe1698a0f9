package identity

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// A Bundle is the roots that are trusted; immutable.
type Bundle struct {
	roots []*x509.Certificate
	pool  *x509.CertPool
}

// NewBundle makes a bundle of certificates that may issue others.
func NewBundle(roots ...*x509.Certificate) (*Bundle, error) {
	if len(roots) == 0 {
		return nil, errors.New("trust bundle: no certificate in it")
	}
	b := &Bundle{roots: roots, pool: x509.NewCertPool()}
	for _, root := range roots {
		if !root.BasicConstraintsValid || !root.IsCA {
			return nil, fmt.Errorf("trust bundle: certificate %s is not of a certificate authority", describe(root))
		}
		b.pool.AddCert(root)
	}
	return b, nil
}

// ParseBundle reads a bundle from PEM text.
func ParseBundle(text []byte) (*Bundle, error) {
	certs, err := parseCertificates(text)
	if err != nil {
		return nil, fmt.Errorf("trust bundle: %w", err)
	}
	return NewBundle(certs...)
}

// AppendPEM adds the roots as PEM text to out.
func (b *Bundle) AppendPEM(out []byte) []byte {
	for _, root := range b.roots {
		out = appendPEM(out, root.Raw)
	}
	return out
}

// String names the roots for people.
func (b *Bundle) String() string {
	var all []string
	for _, root := range b.roots {
		all = append(all, fmt.Sprintf("%q (SHA-256 %s…)", root.Subject.String(), fingerprint(root)))
	}
	return strings.Join(all, ", ")
}

const certificateBlock = "CERTIFICATE"

func appendPEM(out, der []byte) []byte {
	return append(out, pem.EncodeToMemory(&pem.Block{Type: certificateBlock, Bytes: der})...)
}

// parseCertificates reads PEM text that holds certificates and nothing else.
func parseCertificates(text []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for {
		var block *pem.Block
		block, text = pem.Decode(text)
		if block == nil {
			if strings.TrimSpace(string(text)) != "" {
				return nil, fmt.Errorf("behind certificate %d is what is not PEM", len(certs))
			}
			return certs, nil
		}
		if block.Type != certificateBlock {
			return nil, fmt.Errorf("block %d is %q; only certificates belong here", len(certs)+1, block.Type)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(certs)+1, err)
		}
		certs = append(certs, cert)
	}
}
