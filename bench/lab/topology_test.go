package lab

import (
	"strings"
	"testing"
)

func TestPlanAddresses(t *testing.T) {
	want := Simple(2, 2, 2)
	want.Nodes[1].Pods[1].NoIPv6 = true
	p, err := want.plan()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		who  string
		got  Addrs
		want string
	}{
		{"n2", p.nodes[1].addrs, "192.0.2.2 2001:db8:0:1::2 invalid IP invalid IP"},
		{"p3", p.nodes[1].pods[0].addrs, "198.51.100.3 2001:db8:0:2::3 203.0.113.3 2001:db8:0:3::3"},
		{"p4", p.nodes[1].pods[1].addrs, "198.51.100.4 invalid IP 203.0.113.4 invalid IP"},
		{"h2", p.hosts[1].addrs, "192.0.2.253 2001:db8:0:1::fffe 203.0.113.253 2001:db8:0:3::fffe"},
	} {
		a := tt.got
		got := strings.Join([]string{a.Addr4.String(), a.Addr6.String(), a.Second4.String(), a.Second6.String()}, " ")
		if got != tt.want {
			t.Errorf("%s has %s; want %s", tt.who, got, tt.want)
		}
	}
}

func TestPlanRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   Topology
		want string
	}{
		{"nothing", Topology{}, "no nodes and no hosts"},
		{"too many pods", Simple(2, 128, 0), "256 pods and hosts; 203.0.113.0/24 has room for 254"},
		{"too many nodes", Simple(250, 0, 5), "255 nodes and hosts; 192.0.2.0/24 has room for 254"},
		{"bad name", Topology{Hosts: []string{"Web_1"}}, `host name "Web_1"`},
		{"twice", Topology{Hosts: []string{"a", "a"}}, `host name "a" is taken`},
		{"the trunk's", Topology{Hosts: []string{"trunk"}}, `host name "trunk" is taken`},
		{"both faults", Topology{Hosts: []string{"a", "a", "B"}}, `host name "B"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := tt.in.plan()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v; want %q", err, tt.want)
			}
		})
	}
}
