package local

import (
	"os"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/mesh"
)

// A file is taken whole or not at all, and what is taken can be looked up.
func FuzzParse(f *testing.F) {
	good, err := os.ReadFile("testdata/good.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse(text)
		if (s == nil) != (err != nil) {
			t.Fatalf("%v and %v", s, err)
		}
		if err != nil {
			return
		}
		for w := range s.Workloads() {
			for _, a := range w.Addresses {
				if got := s.ByAddr(a); got != w && !w.HostNetwork {
					t.Fatalf("%v is of %v, found %v", a, w, got)
				}
			}
			id := flow.Identity{TrustDomain: w.TrustDomain, Namespace: w.Namespace, ServiceAccount: w.ServiceAccount}
			if w.Protocol == mesh.HBONE && id.Check() != nil {
				t.Fatalf("%v has no identity", w)
			}
		}
	})
}
