package identity

import (
	"crypto/sha256"
	"crypto/x509"
	"fmt"
)

// A Reason is why a certificate was refused; a label of metrics.
type Reason uint8

// The reasons.
const (
	Absent       Reason = iota // the peer showed none
	Malformed                  // it can't be read, or breaks a rule of X.509
	Unsigned                   // no trusted root stands behind it
	Expired                    // its time, or that of one above it, is over
	NotYetValid                // its time, or that of one above it, has not come
	WrongUsage                 // it is not for this role
	Nameless                   // it names no workload
	SeveralNames               // it names more than one
	WrongName                  // it names another workload than was expected
	WrongDomain                // it is of another trust domain
	Reasons                    // how many there are
)

func (r Reason) String() string {
	switch r {
	case Absent:
		return "absent"
	case Malformed:
		return "malformed"
	case Unsigned:
		return "unknown_root"
	case Expired:
		return "expired"
	case NotYetValid:
		return "not_yet_valid"
	case WrongUsage:
		return "wrong_usage"
	case Nameless:
		return "no_identity"
	case SeveralNames:
		return "several_identities"
	case WrongName:
		return "wrong_identity"
	case WrongDomain:
		return "wrong_trust_domain"
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// A Fault is a certificate that was refused: a peer's, or one of our own.
type Fault struct {
	Reason Reason
	// Certificate says which one, for people; "" when there was none.
	Certificate string
	Detail      string // what is wrong, and with what it was compared
}

func (f *Fault) Error() string {
	if f.Certificate == "" {
		return f.Detail
	}
	return "certificate " + f.Certificate + ": " + f.Detail
}

func fault(r Reason, cert *x509.Certificate, detail string) *Fault {
	return &Fault{Reason: r, Certificate: describe(cert), Detail: detail}
}

// describe names a certificate for people: whom it names, its number and its issuer.
func describe(cert *x509.Certificate) string {
	who := ""
	switch ids, err := names(cert); {
	case err == nil && len(ids) > 0:
		who = "of " + list(ids[:min(len(ids), 4)]) + " "
	case cert.Subject.String() != "":
		who = fmt.Sprintf("of %q ", cert.Subject.String())
	}
	return fmt.Sprintf("%s(serial %x, issued by %q)", who, cert.SerialNumber, cert.Issuer.String())
}

// fingerprint tells certificates apart for people.
func fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return fmt.Sprintf("%x", sum[:8])
}
