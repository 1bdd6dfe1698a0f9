package sys

import (
	"net/netip"
	"testing"
)

// FuzzParseSockAddr is for what the kernel says about peers and original
// destinations: whatever the bytes, an address that is accepted can be used to
// connect to, and is in the one form that all of the proxy compares.
func FuzzParseSockAddr(f *testing.F) {
	for _, text := range sockAddrSeeds {
		f.Add(encode(netip.MustParseAddrPort(text)))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		ap, err := ParseSockAddr(in)
		if err != nil {
			if err != EINVAL || ap.IsValid() {
				t.Fatalf("%x: %v, %v", in, ap, err)
			}
			return
		}
		addr := ap.Addr()
		if !addr.IsValid() || addr.Is4In6() {
			t.Fatalf("%x became %v", in, ap)
		}
		if addr.Zone() != "" && !addr.IsLinkLocalUnicast() {
			t.Fatalf("%x became %v, with a scope that it can't have", in, ap)
		}
		if again, err := ParseSockAddr(encode(ap)); err != nil || again != ap {
			t.Fatalf("%v became %v, %v", ap, again, err)
		}
	})
}
