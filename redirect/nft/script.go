package nft

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/sluice-mesh/sluice/redirect"
)

// Script is the text that nft -f takes to make t, whatever was there before.
func Script(t redirect.Table) string {
	var b strings.Builder
	b.WriteString(Undo(t))
	fmt.Fprintf(&b, "table inet %s {\n", t.Name)
	for i, c := range t.Chains {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "\tchain %s {\n", c.Name)
		if h := c.Hook; h != nil {
			fmt.Fprintf(&b, "\t\ttype %s hook %s priority %d; policy accept;\n", h.Type, h.Point, h.Priority)
		}
		for _, r := range c.Rows {
			fmt.Fprintf(&b, "\t\t%s\n", rowText(r))
		}
		b.WriteString("\t}\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// Undo is the text that nft -f takes to remove t, also when it is not there.
func Undo(t redirect.Table) string {
	return fmt.Sprintf("table inet %[1]s\ndelete table inet %[1]s\n", t.Name)
}

func rowText(r redirect.Row) string {
	words := make([]string, len(r))
	for i, t := range r {
		words[i] = termText(t)
	}
	return strings.Join(words, " ")
}

func termText(t redirect.Term) string {
	switch t := t.(type) {
	case redirect.InIface:
		return fmt.Sprintf("iifname %s%q", unless(t.Not), t.Name)
	case redirect.OutIface:
		return fmt.Sprintf("oifname %s%q", unless(t.Not), t.Name)
	case redirect.IP:
		if t.Family == redirect.IPv6 {
			return "meta nfproto ipv6"
		}
		return "meta nfproto ipv4"
	case redirect.L4:
		return "meta l4proto " + t.Proto.String()
	case redirect.Mark:
		return fmt.Sprintf("meta mark & %#x %s %#x", redirect.MarkMask, equals(t.Not), t.Value)
	case redirect.SocketMark:
		return fmt.Sprintf("socket mark & %#x == %#x", redirect.MarkMask, t.Value)
	case redirect.Transparent:
		return fmt.Sprintf("socket transparent %d", flag(!t.Not))
	case redirect.SYN:
		return fmt.Sprintf("tcp flags & (fin|syn|rst|ack) %s syn", equals(t.Not))
	case redirect.NotLocal:
		return "fib daddr type != local"
	case redirect.SrcPort:
		return fmt.Sprintf("%v sport %s%d", t.Proto, unless(t.Not), t.Port)
	case redirect.DstPort:
		return fmt.Sprintf("%v dport %d", t.Proto, t.Port)
	case redirect.From:
		return fmt.Sprintf("%s saddr %v", header(t.Addr), t.Addr)
	case redirect.FromPrefix:
		return fmt.Sprintf("%s saddr %v", header(t.Prefix.Addr()), t.Prefix)
	case redirect.To:
		var to []string
		for _, p := range t.Prefixes {
			if p.IsSingleIP() {
				to = append(to, p.Addr().String())
				continue
			}
			to = append(to, p.String())
		}
		return fmt.Sprintf("%s daddr { %s }", header(t.Prefixes[0].Addr()), strings.Join(to, ", "))
	case redirect.SetMark:
		return fmt.Sprintf("meta mark set meta mark & %#x | %#x", ^uint32(redirect.MarkMask), t.Value)
	case redirect.TProxy:
		if t.Family == redirect.IPv6 {
			return fmt.Sprintf("tproxy ip6 to :%d", t.Port)
		}
		return fmt.Sprintf("tproxy ip to :%d", t.Port)
	case redirect.Accept:
		return "accept"
	case redirect.Drop:
		return "drop"
	case redirect.Goto:
		return "goto " + t.Chain
	case redirect.Named:
		return t.Expr
	}
	panic(fmt.Sprintf("nft: no text for a term of type %T", t))
}

func header(a netip.Addr) string {
	if a.Is4() {
		return "ip"
	}
	return "ip6"
}

func equals(not bool) string {
	if not {
		return "!="
	}
	return "=="
}

// unless is the operator where equality has none.
func unless(not bool) string {
	if not {
		return "!= "
	}
	return ""
}
