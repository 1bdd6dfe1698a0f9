package redirect

import (
	"fmt"
	"net/netip"
)

// The marks, of which only the bits in MarkMask are ours; the bits above belong
// to others and are kept.
const (
	MarkMask     = 0xfff
	MarkProxy    = 0x539 // on every socket that the proxy owns in a pod
	MarkCaptured = 0x111 // on its way to the proxy's 15001 or 15053
	MarkReply    = 0x53a // belongs to a socket of the proxy that exists already
	MarkNetwork  = 0x53b // came from the network and is not captured
)

// The proxy's ports in a pod.
const (
	PortOutbound = 15001
	PortInbound  = 15006
	PortHBONE    = 15008
	PortDNS      = 15053
)

const (
	// TableName is our table's name, in family inet.
	TableName = "sluice"
	// RouteTable is the routing table that leads to lo.
	RouteTable = 100
	// PriorityCaptured and PriorityReply are the preferences of our policy rules:
	// low, or a pod's own "from ADDRESS lookup TABLE" would win.
	PriorityCaptured = 10
	PriorityReply    = 11
	// hookPriority is behind dstnat (-100) and before filter (0).
	hookPriority = -90
)

// A Family is an IP version.
type Family uint8

// The families.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

func (f Family) String() string { return fmt.Sprintf("IPv%d", uint8(f)) }

// A Plan is what the kernel must hold in one namespace.
type Plan struct {
	Sysctls []Sysctl
	Routes  []Route
	Rules   []Rule
	Table   Table
	// Spared destinations are never captured.
	Spared []netip.Prefix
	// Require names nf_tables expressions that the kernel must have besides.
	Require []string
}

// A Sysctl is a value below /proc/sys, by its dotted name.
type Sysctl struct {
	Name, Value string
	// Required: capture does not work without it. The others spare work.
	Required bool
}

// A Route is "local default dev lo" in a table.
type Route struct {
	Family Family
	Table  int
}

// A Rule is a policy rule: packets with this mark look up this table.
type Rule struct {
	Family     Family
	Priority   int
	Mark, Mask uint32
	Table      int
}

// A Table is an nf_tables table of family inet.
type Table struct {
	Name   string
	Chains []Chain
}

// A Chain is a list of rows. Without a Hook other chains go to it.
type Chain struct {
	Name string
	Hook *Hook
	Rows []Row
}

// A Hook is where the kernel calls a base chain. Its policy is accept.
type Hook struct {
	Type, Point string
	Priority    int
}

// A Row is one nf_tables rule: terms from left to right.
type Row []Term

// NewPlan says what in needs. Mode redirect is refused: its rules are
// istio-cni's, and so is programming them.
func NewPlan(in Intent) (Plan, error) {
	in, err := in.check()
	if err != nil {
		return Plan{}, err
	}
	if in.Mode != ModeDirect {
		return Plan{}, fmt.Errorf("mode %v: %w: its rules are not generated here, istio-cni programs them; use mode direct", in.Mode, ErrMode)
	}
	p := Plan{
		Sysctls: []Sysctl{
			{Name: "net.ipv4.tcp_fwmark_accept", Value: "1"}, // both families
			{Name: "net.ipv4.fwmark_reflect", Value: "1"},
			{Name: "net.ipv6.fwmark_reflect", Value: "1"},
		},
		Table:   direct(in),
		Spared:  append(in.spared(IPv4), in.spared(IPv6)...),
		Require: in.Require,
	}
	for _, f := range []Family{IPv4, IPv6} {
		p.Routes = append(p.Routes, Route{f, RouteTable})
		p.Rules = append(p.Rules,
			Rule{f, PriorityCaptured, MarkCaptured, MarkMask, RouteTable},
			Rule{f, PriorityReply, MarkReply, MarkMask, RouteTable})
	}
	return p, nil
}

func linkLocal6() netip.Prefix { return netip.MustParsePrefix("fe80::/10") }

// spared are the destinations of a family that are never captured: loopback, the
// probes, and link-local addresses, which can't be routed to lo.
func (in Intent) spared(f Family) []netip.Prefix {
	if f == IPv4 {
		return []netip.Prefix{
			netip.MustParsePrefix("127.0.0.0/8"),
			netip.PrefixFrom(in.Probe4, 32),
		}
	}
	return []netip.Prefix{
		netip.MustParsePrefix("::1/128"),
		netip.PrefixFrom(in.Probe6, 128),
		linkLocal6(),
	}
}
