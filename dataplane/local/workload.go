package local

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/mesh"
)

// parseWorkload reads one workload; nil when it has a fault.
func parseWorkload(f *faults, at string, v json.RawMessage) *mesh.Workload {
	before := len(f.all)
	w := &mesh.Workload{}
	seen := map[string]bool{}
	text := func(to *string) func(string, json.RawMessage) {
		return func(at string, v json.RawMessage) { str(f, at, v, to) }
	}
	one := func(of map[string]func()) func(string, json.RawMessage) {
		return func(at string, v json.RawMessage) {
			var s string
			if !str(f, at, v, &s) {
				return
			}
			set, ok := of[s]
			if !ok {
				f.add(at, "%q is not one of %s", s, oneOf(of))
				return
			}
			set()
		}
	}
	later := func(at string, v json.RawMessage) { empty(f, at, v) }
	known := map[string]func(string, json.RawMessage){
		"uid":               text(&w.UID),
		"name":              text(&w.Name),
		"namespace":         text(&w.Namespace),
		"serviceAccount":    text(&w.ServiceAccount),
		"trustDomain":       text(&w.TrustDomain),
		"clusterId":         text(&w.ClusterID),
		"node":              text(&w.Node),
		"workloadName":      text(&w.WorkloadName),
		"workloadType":      text(&w.WorkloadType),
		"canonicalName":     text(&w.CanonicalName),
		"canonicalRevision": text(&w.CanonicalRevision),
		"workloadIps": func(at string, v json.RawMessage) {
			eachItem(f, at, v, func(at string, v json.RawMessage) {
				if a, ok := address(f, at, v); ok {
					w.Addresses = append(w.Addresses, a)
				}
			})
		},
		"protocol": one(map[string]func(){
			"TCP":   func() { w.Protocol = mesh.TCP },
			"HBONE": func() { w.Protocol = mesh.HBONE },
		}),
		"networkMode": one(map[string]func(){
			"Standard":    func() { w.HostNetwork = false },
			"HostNetwork": func() { w.HostNetwork = true },
		}),
		// Health and weight matter to services alone, and there are none yet.
		"status": one(map[string]func(){"Healthy": func() {}, "Unhealthy": func() {}}),
		"capacity": func(at string, v json.RawMessage) {
			if _, err := strconv.ParseUint(string(v), 10, 32); err != nil {
				f.add(at, "want a whole number from 0 to 4294967295, not %s", excerpt(v))
			}
		},
		"locality": func(at string, v json.RawMessage) {
			eachField(f, at, v, map[string]func(string, json.RawMessage){
				"region": text(&w.Region), "zone": text(&w.Zone), "subzone": text(&w.Subzone),
			})
		},
		"network": later, "hostname": later, "services": later, "waypoint": later, "networkGateway": later,
		"nativeTunnel": later, "applicationTunnel": later, "authorizationPolicies": later,
	}
	for name, read := range known {
		known[name] = func(at string, v json.RawMessage) { seen[name] = true; read(at, v) }
	}
	eachField(f, at, v, known)
	for _, name := range []string{"workloadIps", "namespace", "services"} {
		if !seen[name] {
			f.add(at, "%s is missing", name)
		}
	}
	if w.Protocol == mesh.HBONE {
		id := flow.Identity{TrustDomain: w.TrustDomain, Namespace: w.Namespace, ServiceAccount: w.ServiceAccount}
		if err := id.Check(); err != nil {
			f.add(at, "protocol HBONE needs trustDomain, namespace and serviceAccount: %w", err)
		}
	}
	if len(f.all) > before {
		return nil
	}
	return w
}

// str reads a string; null leaves to as it is.
func str(f *faults, at string, v json.RawMessage, to *string) bool {
	if isNull(v) {
		return false
	}
	if err := json.Unmarshal(v, to); err != nil {
		f.add(at, "want a string, not %s; put it in quotes", excerpt(v))
		return false
	}
	return true
}

// address reads an IP address.
func address(f *faults, at string, v json.RawMessage) (netip.Addr, bool) {
	var s string
	if !str(f, at, v, &s) {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil:
		f.add(at, "%q is not an IP address", s)
	case a.Zone() != "" || a.IsUnspecified() || a.IsMulticast():
		f.add(at, "%q is not an address of one workload", s)
	default:
		return a.Unmap(), true
	}
	return netip.Addr{}, false
}

// index is the place of an item: "workloads[1]".
func index(at string, i int) string { return at + "[" + strconv.Itoa(i) + "]" }

// oneOf lists the names in a map.
func oneOf(of map[string]func()) string { return strings.Join(slices.Sorted(maps.Keys(of)), ", ") }
