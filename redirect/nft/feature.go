package nft

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/redirect"
)

// FeatureDirect is everything in nf_tables that mode direct needs. Its probe
// rehearses the whole table in the caller's namespace, which leaves nothing
// behind but loaded modules; it needs CAP_NET_ADMIN. The answer is remembered, so
// that not every pod pays for a rehearsal.
var FeatureDirect = sys.NewFeature("nf_tables rows of mode direct", "5.2", func() error {
	p, err := redirect.NewPlan(redirect.Intent{DNS: true})
	if err != nil {
		return err
	}
	ns, err := netns.Current()
	if err != nil {
		return err
	}
	defer ns.Close()
	return Rehearse(ns, p.Table)
})

// Features are the parts of FeatureDirect, for people. Each is probed likewise.
func Features() []*sys.Feature {
	filter := redirect.Hook{Type: "filter", Point: "prerouting"}
	return []*sys.Feature{
		rowFeature("nf_tables tables of family inet", "3.14", filter, redirect.Row{redirect.Accept{}}),
		rowFeature("nf_tables chains of type route in family inet", "5.2",
			redirect.Hook{Type: "route", Point: "output"}, redirect.Row{redirect.SetMark{Value: redirect.MarkCaptured}}),
		rowFeature("nf_tables meta, bitwise and cmp", "3.13", filter, redirect.Row{redirect.Mark{Value: redirect.MarkCaptured}}),
		rowFeature("nf_tables payload", "3.13", filter, redirect.Row{redirect.SYN{}}),
		rowFeature("nf_tables anonymous interval sets", "3.13", filter, redirect.Row{redirect.To{Prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}),
		rowFeature("nf_tables fib in family inet", "4.10", filter, redirect.Row{redirect.NotLocal{}}),
		rowFeature("nf_tables socket transparent", "4.18", filter, redirect.Row{redirect.Transparent{}}),
		rowFeature("nf_tables socket mark", "4.20", filter, redirect.Row{redirect.SocketMark{Value: redirect.MarkReply}}),
		rowFeature("nf_tables tproxy for IPv4", "4.19", filter, tproxyRow(redirect.IPv4)),
		rowFeature("nf_tables tproxy for IPv6", "4.19", filter, tproxyRow(redirect.IPv6)),
	}
}

func tproxyRow(f redirect.Family) redirect.Row {
	return redirect.Row{redirect.IP{Family: f}, redirect.L4{Proto: redirect.TCP}, redirect.TProxy{Family: f, Port: redirect.PortInbound}}
}

func rowFeature(name, since string, h redirect.Hook, r redirect.Row) *sys.Feature {
	return sys.NewFeature(name, since, func() error {
		ns, err := netns.Current()
		if err != nil {
			return err
		}
		defer ns.Close()
		return replaceTable(probeTable(h, r)).run(ns, true)
	})
}

// Probe asks the kernel, by a rehearsal in ns, whether it has an expression of
// this name. The error wraps sys.ErrUnsupported when it has not.
func Probe(ns *netns.Handle, name string) error {
	h := redirect.Hook{Type: "filter", Point: "prerouting"}
	err := replaceTable(probeTable(h, redirect.Row{redirect.Named{Expr: name}})).run(ns, true)
	// Without operands a known expression is refused for lack of them, or taken.
	if err != nil && (errors.Is(err, sys.ErrUnsupported) || !errors.Is(err, unix.EINVAL)) {
		return fmt.Errorf("nf_tables expression %q: %w", name, err)
	}
	return nil
}

// probeTable holds one row, below a name that no other table has.
func probeTable(h redirect.Hook, r redirect.Row) redirect.Table {
	return redirect.Table{Name: "sluice_probe", Chains: []redirect.Chain{{Name: "probe", Hook: &h, Rows: []redirect.Row{r}}}}
}
