package lab_test

import (
	"net/netip"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
)

// A lab is built when its own addresses can be used: the kernel makes those of
// IPv6 local a moment after it was given them.
func TestLabAddressesAreReady(t *testing.T) {
	for range 5 {
		for _, s := range lab.New(t, lab.Simple(1, 12, 1)).Spaces() {
			for _, a := range []netip.Addr{s.Addr4, s.Addr6, s.Second4, s.Second6} {
				if !a.IsValid() {
					continue
				}
				ln, err := s.Listen(netip.AddrPortFrom(a, 80), lab.Socket{})
				if err != nil {
					t.Fatal(err)
				}
				c, err := s.Dial(t.Context(), netip.AddrPortFrom(a, 80), lab.Socket{})
				ln.Close()
				if err != nil {
					t.Fatal(err)
				}
				c.Close()
			}
		}
	}
}
