package identity

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
)

// uriName is the tag of a URI among the names of a certificate (RFC 5280 4.2.1.6).
const uriName = 6

// names returns the identities in a certificate, in its order. Names of other kinds
// and URIs that are not identities are passed over. It reads the certificate's own
// bytes: net/url would make one text of several.
func names(cert *x509.Certificate) ([]ID, error) {
	var found []ID
	for _, ext := range cert.Extensions {
		if !ext.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) {
			continue
		}
		var list asn1.RawValue
		rest, err := asn1.Unmarshal(ext.Value, &list)
		if err != nil || len(rest) > 0 || !list.IsCompound || list.Tag != asn1.TagSequence || list.Class != asn1.ClassUniversal {
			return nil, errors.New("its list of names is malformed")
		}
		for rest = list.Bytes; len(rest) > 0; {
			var one asn1.RawValue
			if rest, err = asn1.Unmarshal(rest, &one); err != nil {
				return nil, errors.New("its list of names is malformed")
			}
			if one.Class != asn1.ClassContextSpecific || one.Tag != uriName {
				continue
			}
			if id, err := ParseID(string(one.Bytes)); err == nil {
				found = append(found, id)
			}
		}
	}
	return found, nil
}

// Name returns the one identity that a certificate proves. A certificate with
// several proves none: whoever asks for one of them could be shown another.
func Name(cert *x509.Certificate) (ID, error) {
	ids, err := names(cert)
	switch {
	case err != nil:
		return ID{}, fault(Malformed, cert, err.Error())
	case len(ids) == 0:
		return ID{}, fault(Nameless, cert, "it names no workload: no URI of the form spiffe://TRUST-DOMAIN/ns/NAMESPACE/sa/SERVICE-ACCOUNT")
	case len(ids) > 1:
		return ID{}, fault(SeveralNames, cert, "it names several workloads, "+list(ids)+"; a certificate proves one")
	}
	return ids[0], nil
}

// list writes ids for people.
func list(ids []ID) string {
	var b []byte
	for i, id := range ids {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = id.Append(b)
	}
	return string(b)
}
