package identity

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net/url"
	"strings"
	"testing"
)

// An identity that was read is written as it came, byte by byte, and one that may be
// issued means the same to net/url.
func FuzzID(f *testing.F) {
	for _, seed := range []string{
		"spiffe://cluster.local/ns/shop/sa/web", "spiffe:///ns//sa/", "spiffe://cluster.local/ns/shop/sa/web/",
		"spiffe://a/ns/b/sa/c/d", "SPIFFE://a/ns/b/sa/c", "spiffe://a/NS/b/sa/c", "spiffe://a/ns/b%2Fc/sa/d", "spiffe://a/ns/sa/b", "",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseID(s)
		if ok := idByParts(s); ok != (err == nil) {
			t.Fatalf("%q: %v; by its parts: %v", s, err, ok)
		}
		if err != nil {
			if !id.IsZero() {
				t.Fatalf("%q: %v and an identity", s, err)
			}
			return
		}
		if id.String() != s || string(id.Append([]byte("x"))) != "x"+s {
			t.Fatalf("%q is written as %q", s, id)
		}
		if id.Check() != nil {
			return
		}
		u, err := url.Parse(s)
		if err != nil || u.Host != id.TrustDomain || u.Path != "/ns/"+id.Namespace+"/sa/"+id.ServiceAccount || u.String() != s {
			t.Fatalf("%q may be issued, and is %v, %v to others", s, u, err)
		}
	})
}

// idByParts is what the form means, told in another way.
func idByParts(s string) bool {
	rest, ok := strings.CutPrefix(s, "spiffe://")
	p := strings.Split(rest, "/")
	return ok && len(p) == 5 && p[1] == "ns" && p[3] == "sa"
}

// The names of a certificate are in its bytes as they are, and only one proves who
// it is.
func FuzzNames(f *testing.F) {
	f.Add([]byte{0x30, 0x00})
	f.Add([]byte("\x30\x27\x86\x25spiffe://cluster.local/ns/shop/sa/web"))
	f.Add([]byte("\x30\x05\x82\x03a.b"))
	f.Fuzz(func(t *testing.T, value []byte) {
		cert := &x509.Certificate{Extensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: value}}}
		ids, err := names(cert)
		if err != nil && ids != nil {
			t.Fatalf("%v and %v", ids, err)
		}
		for _, id := range ids {
			if !bytes.Contains(value, id.Append(nil)) {
				t.Fatalf("%v is not in %q", id, value)
			}
		}
		if one, err := Name(cert); (err == nil) != (len(ids) == 1) || err == nil && one != ids[0] {
			t.Fatalf("%v proves %v, %v", ids, one, err)
		}
	})
}
