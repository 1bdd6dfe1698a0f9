package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
)

// A Topology says what a lab is made of. It is also what a standing lab is
// remembered by, hence the JSON names.
type Topology struct {
	Nodes []NodeSpec `json:"nodes"`
	Hosts []string   `json:"hosts"` // names of the outside hosts
}

// A NodeSpec is a node and its pods.
type NodeSpec struct {
	Name string    `json:"name"`
	Pods []PodSpec `json:"pods"`
}

// A PodSpec is a pod.
type PodSpec struct {
	Name   string `json:"name"`
	NoIPv6 bool   `json:"noIPv6,omitempty"` // IPv6 switched off inside, as disable_ipv6 does
}

// Simple is a topology of nodes n1, n2 and so on with the same number of pods
// each, p1, p2 and so on across all nodes, and outside hosts h1, h2 and so on.
func Simple(nodes, podsEach, hosts int) Topology {
	var t Topology
	for n := range nodes {
		spec := NodeSpec{Name: fmt.Sprintf("n%d", n+1)}
		for p := range podsEach {
			spec.Pods = append(spec.Pods, PodSpec{Name: fmt.Sprintf("p%d", n*podsEach+p+1)})
		}
		t.Nodes = append(t.Nodes, spec)
	}
	for h := range hosts {
		t.Hosts = append(t.Hosts, fmt.Sprintf("h%d", h+1))
	}
	return t
}

// Addrs are the addresses on eth0. The second ones are absent on nodes, and the
// IPv6 ones where IPv6 is off.
type Addrs struct {
	Addr4, Addr6     netip.Addr
	Second4, Second6 netip.Addr
}

// At4 is the first IPv4 address with a port.
func (a Addrs) At4(port uint16) netip.AddrPort { return netip.AddrPortFrom(a.Addr4, port) }

// At6 is the first IPv6 address with a port.
func (a Addrs) At6(port uint16) netip.AddrPort { return netip.AddrPortFrom(a.Addr6, port) }

// A plan is a topology with addresses.
type plan struct {
	nodes []nodePlan
	hosts []memberPlan
}

type nodePlan struct {
	memberPlan
	pods []memberPlan
}

type memberPlan struct {
	name   string
	addrs  Addrs
	noIPv6 bool
}

const (
	trunkName = "trunk"

	// A range holds 254 addresses; hosts count from the top, all else from the
	// bottom.
	perRange = 254
)

// Names are part of interface names: "t-" and the name must fit into 15 bytes.
var memberName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,12}$`)

// plan gives every member its addresses, or reports every fault of the topology.
func (t Topology) plan() (plan, error) {
	var (
		p      plan
		faults []error
		seen   = map[string]bool{trunkName: true}
		pods   int
	)
	check := func(kind, name string) {
		if !memberName.MatchString(name) {
			faults = append(faults, fmt.Errorf("%s name %q; want a lower-case letter and up to 12 letters, digits or dashes", kind, name))
		} else if seen[name] {
			faults = append(faults, fmt.Errorf("%s name %q is taken", kind, name))
		}
		seen[name] = true
	}
	for i, n := range t.Nodes {
		check("node", n.Name)
		np := nodePlan{memberPlan: memberPlan{name: n.Name, addrs: Addrs{
			Addr4: address4(192, 0, 2, i+1),
			Addr6: address6(1, i+1),
		}}}
		for _, pod := range n.Pods {
			check("pod", pod.Name)
			pods++
			mp := memberPlan{name: pod.Name, noIPv6: pod.NoIPv6, addrs: Addrs{
				Addr4:   address4(198, 51, 100, pods),
				Second4: address4(203, 0, 113, pods),
			}}
			if !pod.NoIPv6 {
				mp.addrs.Addr6, mp.addrs.Second6 = address6(2, pods), address6(3, pods)
			}
			np.pods = append(np.pods, mp)
		}
		p.nodes = append(p.nodes, np)
	}
	for i, name := range t.Hosts {
		check("host", name)
		p.hosts = append(p.hosts, memberPlan{name: name, addrs: Addrs{
			Addr4:   address4(192, 0, 2, perRange-i),
			Addr6:   address6(1, 0xffff-i),
			Second4: address4(203, 0, 113, perRange-i),
			Second6: address6(3, 0xffff-i),
		}})
	}
	if n := len(t.Nodes) + len(t.Hosts); n > perRange {
		faults = append(faults, fmt.Errorf("%d nodes and hosts; 192.0.2.0/24 has room for %d", n, perRange))
	}
	if n := pods + len(t.Hosts); n > perRange {
		faults = append(faults, fmt.Errorf("%d pods and hosts; 203.0.113.0/24 has room for %d", n, perRange))
	}
	if len(t.Nodes)+len(t.Hosts) == 0 {
		faults = append(faults, errors.New("no nodes and no hosts"))
	}
	return p, errors.Join(faults...)
}

func address4(a, b, c byte, n int) netip.Addr { return netip.AddrFrom4([4]byte{a, b, c, byte(n)}) }

// address6 is number n of 2001:db8:0:net::/64.
func address6(net byte, n int) netip.Addr {
	return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, 7: net, 14: byte(n >> 8), 15: byte(n)})
}
