package h2

import "strings"

// A Baggage describes a workload, for telemetry: the source in a request, the
// destination in a response. Nobody is authorized by it.
type Baggage struct {
	Cluster   string // k8s.cluster.name
	Namespace string // k8s.namespace.name
	Kind      string // deployment, cronjob, pod or job
	Workload  string // k8s.<kind>.name
	Service   string // service.name, the canonical name
	Revision  string // service.version, the canonical revision
	Region    string // cloud.region
	Zone      string // cloud.availability_zone
}

// Append appends the value of the baggage field, in the order that is usual. There is
// no escape in it: a value that is empty, or that can't be carried, is left out.
func (g *Baggage) Append(b []byte) []byte {
	start := len(b)
	pair := func(key, value string) {
		if value == "" || strings.ContainsAny(value, ",=") || !printable(value) || value != strings.TrimSpace(value) {
			return
		}
		if len(b) > start {
			b = append(b, ',')
		}
		b = append(append(append(b, key...), '='), value...)
	}
	pair("k8s.cluster.name", g.Cluster)
	pair("k8s.namespace.name", g.Namespace)
	if key := kindKey(g.Kind); key != "" {
		pair(key, g.Workload)
	}
	pair("service.name", g.Service)
	pair("service.version", g.Revision)
	pair("cloud.region", g.Region)
	pair("cloud.availability_zone", g.Zone)
	return b
}

// kindKey is the key under which a workload of a kind is named; "" for no such kind.
func kindKey(kind string) string {
	switch kind {
	case "deployment":
		return "k8s.deployment.name"
	case "cronjob":
		return "k8s.cronjob.name"
	case "pod":
		return "k8s.pod.name"
	case "job":
		return "k8s.job.name"
	}
	return ""
}

// ParseBaggage reads the value of a baggage field, joined from all its lines. Keys
// that it does not know are skipped, the last of a key counts, an empty value is as
// good as none. A value that is not ASCII text makes all of it void.
func ParseBaggage(value string) (g Baggage) {
	if !printable(value) {
		return g
	}
	for pair := range strings.SplitSeq(value, ",") {
		key, v, _ := strings.Cut(pair, "=")
		v, _, _ = strings.Cut(v, "=")
		switch key {
		case "k8s.cluster.name":
			g.Cluster = v
		case "k8s.namespace.name":
			g.Namespace = v
		case "k8s.deployment.name", "k8s.cronjob.name", "k8s.pod.name", "k8s.job.name":
			g.Kind, g.Workload = strings.TrimSuffix(strings.TrimPrefix(key, "k8s."), ".name"), v
		case "service.name":
			g.Service = v
		case "service.version":
			g.Revision = v
		case "cloud.region":
			g.Region = v
		case "cloud.availability_zone":
			g.Zone = v
		}
	}
	if g.Workload == "" {
		g.Kind = ""
	}
	return g
}
