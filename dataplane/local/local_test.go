package local

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/mesh"
)

// one is a file with one good workload, and more of it.
func one(more string) string {
	return "workloads:\n- {uid: u, name: web-0, namespace: shop, serviceAccount: web, trustDomain: cluster.local,\n" +
		"   workloadIps: [192.0.2.1], protocol: HBONE, services: {}" + more + "}\n"
}

func TestParse(t *testing.T) {
	text, err := os.ReadFile("testdata/good.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	w := s.ByAddr(netip.MustParseAddr("2001:db8::10"))
	if w == nil || s.Len() != 3 {
		t.Fatalf("%d workloads; 2001:db8::10 is %v", s.Len(), w)
	}
	want := &mesh.Workload{
		UID: "lab//Pod/shop/cart-0", Name: "cart-0", Namespace: "shop", ServiceAccount: "cart", TrustDomain: "cluster.local",
		Node: "node-a", Protocol: mesh.HBONE, ClusterID: "east", WorkloadName: "cart", WorkloadType: "deployment",
		CanonicalName: "cart", CanonicalRevision: "v2", Region: "r1", Zone: "r1a", Subzone: "s",
		Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("2001:db8::10")},
	}
	if got := fmt.Sprintf("%+v", w); got != fmt.Sprintf("%+v", want) {
		t.Errorf("read  %s\nwant %+v", got, want)
	}
	if w := s.ByName("shop", "plain-0", ""); w == nil || w.Protocol != mesh.TCP {
		t.Errorf("plain-0 is %+v", w)
	}
	if w := s.ByName("system", "agent-0", "agent"); w == nil || !w.HostNetwork || s.ByAddr(w.Addresses[0]) != nil {
		t.Errorf("agent-0 is %+v", w)
	}
}

func TestParseTakes(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":        "",
		"comment":        "# none yet\n",
		"empty lists":    "workloads: []\nservices: []\npolicies: []\n",
		"json":           `{"workloads":[{"uid":"u","namespace":"n","workloadIps":["192.0.2.1"],"services":{}}]}`,
		"what is absent": one(`, waypoint: null, network: "", authorizationPolicies: [], nativeTunnel: false, capacity: 3, status: Unhealthy`),
	} {
		if _, err := Parse([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is refused is told by its name and place.
func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"unknown at the top", "workload: []", "workload: unknown field"},
		{"unknown in a workload", one(", workloadIPs2: []"), "workloads[0].workloadIPs2: unknown field"},
		{"other capitals", one(", workloadips: [192.0.2.2]"), "workloads[0].workloadips: unknown field"},
		{"unknown in locality", one(", locality: {area: x}"), "workloads[0].locality.area: unknown field"},
		{"twice", one(", name: b"), `"name" already set`},
		{"services", "services: [{name: a}]", "services: not served"},
		{"policies", "policies: [{rules: [[[{principals: [!Exact a]}]]]}]", "policies: not served"},
		{"services of a workload", strings.Replace(one(""), "services: {}", "services: {a/b: {80: 80}}", 1), "workloads[0].services: not served"},
		{"network", one(", network: west"), "workloads[0].network: not served"},
		{"hostname", one(", hostname: a.example.org"), "workloads[0].hostname: not served"},
		{"waypoint", one(", waypoint: {destination: a/b, hboneMtlsPort: 15008}"), "workloads[0].waypoint: not served"},
		{"gateway", one(", networkGateway: {destination: a/b, hboneMtlsPort: 15008}"), "workloads[0].networkGateway: not served"},
		{"native tunnel", one(", nativeTunnel: true"), "workloads[0].nativeTunnel: not served"},
		{"application tunnel", one(", applicationTunnel: {protocol: PROXY}"), "workloads[0].applicationTunnel: not served"},
		{"policies of a workload", one(", authorizationPolicies: [a/b]"), "workloads[0].authorizationPolicies: not served"},
		{"protocol", strings.Replace(one(""), "HBONE", "HTTP", 1), `workloads[0].protocol: "HTTP" is not one of HBONE, TCP`},
		{"address", strings.Replace(one(""), "192.0.2.1", "192.0.2.300", 1), `workloads[0].workloadIps[0]: "192.0.2.300" is not an IP address`},
		{"every address", strings.Replace(one(""), "192.0.2.1", "0.0.0.0", 1), "not an address of one workload"},
		{"number for a name", strings.Replace(one(""), "web-0", "12", 1), "workloads[0].name: want a string, not 12"},
		{"missing", "workloads: [{uid: u}]", "workloads[0]: workloadIps is missing\nworkloads[0]: namespace is missing\nworkloads[0]: services is missing"},
		{"no identity", strings.Replace(one(""), "trustDomain: cluster.local,", "", 1), "protocol HBONE needs trustDomain"},
		{"capacity", one(", capacity: -1"), "workloads[0].capacity: want a whole number"},
		{"one address twice", one("") + strings.TrimPrefix(strings.Replace(one(""), "uid: u", "uid: v", 1), "workloads:\n"), "address 192.0.2.1: is of two workloads"},
		{"list for fields", "[]", "want fields, not []"},
		{"fields for a list", "workloads: {a: b}", "workloads: want a list"},
		{"not YAML", "\t{", "yaml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Parse([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v; want %q in it", err, tt.want)
			}
		})
	}
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, "a%d: 1\n", i)
	}
	if _, err := Parse([]byte(many.String())); err == nil || !strings.Contains(err.Error(), "and 80 more") {
		t.Errorf("a hundred faults: %v", err)
	}
}
