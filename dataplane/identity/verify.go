package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"
)

// VerifyServer judges the chain that a server showed: signed under a root that is
// trusted, good now, meant for a server, and of one of the expected identities. It
// returns which; its error is a *Fault.
func (c *Certificate) VerifyServer(chain []*x509.Certificate, expected []ID) (ID, error) {
	peer, err := c.verify(chain, x509.ExtKeyUsageServerAuth)
	if err != nil {
		return ID{}, err
	}
	if !slices.Contains(expected, peer) {
		want := list(expected)
		if len(expected) == 0 {
			want = "nobody"
		}
		return ID{}, fault(WrongName, chain[0], fmt.Sprintf("it is of %v; expected %s", peer, want))
	}
	return peer, nil
}

// VerifyClient judges the chain that a client showed: signed under a root that is
// trusted, good now, meant for a client, and of the trust domain of c. It returns
// who the client is; its error is a *Fault.
func (c *Certificate) VerifyClient(chain []*x509.Certificate) (ID, error) {
	peer, err := c.verify(chain, x509.ExtKeyUsageClientAuth)
	if err != nil {
		return ID{}, err
	}
	if peer.TrustDomain != c.id.TrustDomain {
		return ID{}, fault(WrongDomain, chain[0], fmt.Sprintf("its trust domain is %q; only %q may come in", peer.TrustDomain, c.id.TrustDomain))
	}
	return peer, nil
}

// verify judges what does not depend on who is expected.
func (c *Certificate) verify(chain []*x509.Certificate, usage x509.ExtKeyUsage) (ID, error) {
	if len(chain) == 0 {
		return ID{}, &Fault{Reason: Absent, Detail: "the peer showed no certificate"}
	}
	leaf, now := chain[0], c.now()
	opts := x509.VerifyOptions{
		Roots:         c.roots.pool,
		Intermediates: x509.NewCertPool(),
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{usage},
	}
	for _, cert := range chain[1:] {
		opts.Intermediates.AddCert(cert)
	}
	if _, err := leaf.Verify(opts); err != nil {
		return ID{}, c.chainFault(chain, now, usage, err)
	}
	switch {
	case leaf.IsCA:
		return ID{}, fault(WrongUsage, leaf, "it is of a certificate authority, not of a workload")
	case !slices.Contains(leaf.ExtKeyUsage, usage):
		// Verify takes a certificate without any usages for one with all.
		return ID{}, fault(WrongUsage, leaf, "it is not meant for "+usageName(usage))
	case leaf.KeyUsage&x509.KeyUsageDigitalSignature == 0:
		return ID{}, fault(WrongUsage, leaf, "its key is not meant for signatures")
	}
	return Name(leaf)
}

// chainFault says in our words why crypto/x509 refused a chain.
func (c *Certificate) chainFault(chain []*x509.Certificate, now time.Time, usage x509.ExtKeyUsage, err error) *Fault {
	leaf := chain[0]
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		if issuer := c.outOfTime(chain, now); issuer != nil {
			return timeFault(issuer, now)
		}
		return fault(Unsigned, leaf, "no root that is trusted here stands behind it; trusted are "+c.roots.String())
	}
	invalid, ok := errors.AsType[x509.CertificateInvalidError](err)
	if !ok {
		return fault(Malformed, leaf, err.Error())
	}
	cert := invalid.Cert
	if cert == nil {
		cert = leaf
	}
	switch invalid.Reason {
	case x509.Expired:
		return timeFault(cert, now)
	case x509.IncompatibleUsage:
		return fault(WrongUsage, leaf, "it is not meant for "+usageName(usage))
	default: // the many ways to break a rule of X.509
		return fault(Malformed, cert, err.Error())
	}
}

// outOfTime returns the issuer of a certificate of chain that would do, were it not
// for its time; nil when there is none. crypto/x509 tells of it only in a text.
func (c *Certificate) outOfTime(chain []*x509.Certificate, now time.Time) *x509.Certificate {
	for _, issuer := range slices.Concat(chain[1:], c.roots.roots) {
		if !now.Before(issuer.NotBefore) && !now.After(issuer.NotAfter) {
			continue
		}
		for _, cert := range chain {
			if cert != issuer && cert.CheckSignatureFrom(issuer) == nil {
				return issuer
			}
		}
	}
	return nil
}

// timeFault is the Fault of a certificate that isn't good at now. Both clocks are in
// it: most often one of them is wrong.
func timeFault(cert *x509.Certificate, now time.Time) *Fault {
	const layout = time.RFC3339
	r, what := Expired, fmt.Sprintf("it expired %v ago", now.Sub(cert.NotAfter).Round(time.Second))
	if now.Before(cert.NotBefore) {
		r, what = NotYetValid, fmt.Sprintf("it is not valid for another %v", cert.NotBefore.Sub(now).Round(time.Second))
	}
	return fault(r, cert, fmt.Sprintf("%s: by the clock of its issuer it is good from %s to %s, by the clock of this node it is %s",
		what, cert.NotBefore.UTC().Format(layout), cert.NotAfter.UTC().Format(layout), now.UTC().Format(layout)))
}

func usageName(usage x509.ExtKeyUsage) string {
	if usage == x509.ExtKeyUsageClientAuth {
		return "a client"
	}
	return "a server"
}
