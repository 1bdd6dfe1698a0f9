package flow

import (
	"errors"
	"fmt"
	"strings"
)

// An Identity is the name that a workload proves by its certificate. It is
// comparable: two are the same when all three parts are, byte by byte.
type Identity struct {
	TrustDomain, Namespace, ServiceAccount string
}

// identityScheme starts the written form of an Identity.
const identityScheme = "spiffe://"

// ErrNotIdentity is wrapped by the error of a text that is not an Identity.
var ErrNotIdentity = errors.New("not a workload identity of the form spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/SERVICE-ACCOUNT")

// ParseIdentity reads spiffe://trust-domain/ns/namespace/sa/service-account. Parts
// may be empty and are taken as they are: nothing is unescaped or folded.
func ParseIdentity(s string) (Identity, error) {
	rest, ok := strings.CutPrefix(s, identityScheme)
	if !ok {
		return Identity{}, fmt.Errorf("%q: %w", s, ErrNotIdentity)
	}
	domain, rest, _ := strings.Cut(rest, "/")
	ns, rest, _ := strings.Cut(rest, "/")
	namespace, rest, _ := strings.Cut(rest, "/")
	sa, account, ok := strings.Cut(rest, "/")
	if !ok || ns != "ns" || sa != "sa" || strings.Contains(account, "/") {
		return Identity{}, fmt.Errorf("%q: %w", s, ErrNotIdentity)
	}
	return Identity{TrustDomain: domain, Namespace: namespace, ServiceAccount: account}, nil
}

// Append adds the written form of id to b.
func (id Identity) Append(b []byte) []byte {
	b = append(b, identityScheme...)
	b = append(b, id.TrustDomain...)
	b = append(b, "/ns/"...)
	b = append(b, id.Namespace...)
	b = append(b, "/sa/"...)
	return append(b, id.ServiceAccount...)
}

// String returns the written form, which ParseIdentity reads back.
func (id Identity) String() string {
	return identityScheme + id.TrustDomain + "/ns/" + id.Namespace + "/sa/" + id.ServiceAccount
}

// IsZero reports the zero Identity, which names nobody.
func (id Identity) IsZero() bool { return id == Identity{} }

// Check says why no certificate may be issued for id. It is stricter than
// ParseIdentity: only characters that SPIFFE allows, and no empty part.
func (id Identity) Check() error {
	if id.TrustDomain != strings.ToLower(id.TrustDomain) {
		return fmt.Errorf("identity %q: trust domain has capital letters", id)
	}
	for _, part := range []struct{ name, value string }{
		{"trust domain", id.TrustDomain}, {"namespace", id.Namespace}, {"service account", id.ServiceAccount},
	} {
		switch {
		case part.value == "":
			return fmt.Errorf("identity %q: %s is empty", id, part.name)
		case part.value == "." || part.value == "..":
			return fmt.Errorf("identity %q: %s is %q", id, part.name, part.value)
		}
		for _, c := range []byte(part.value) {
			switch {
			case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-', c == '_':
			default:
				return fmt.Errorf("identity %q: %s has %q; only letters, digits, '.', '-' and '_' may be used", id, part.name, c)
			}
		}
	}
	return nil
}
