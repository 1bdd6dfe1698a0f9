package rt

import (
	"fmt"
	"strings"

	"github.com/sluice-mesh/sluice/redirect"
)

// Script is p's sysctls, routes and policy rules as commands, in that order.
func Script(p redirect.Plan) string {
	var b strings.Builder
	for _, s := range p.Sysctls {
		fmt.Fprintf(&b, "sysctl -w %s=%s\n", s.Name, s.Value)
	}
	for _, r := range p.Routes {
		fmt.Fprintf(&b, "ip -%d route add %s\n", r.Family, routeText(r))
	}
	for _, r := range p.Rules {
		fmt.Fprintf(&b, "ip -%d rule add %s\n", r.Family, ruleText(r))
	}
	return b.String()
}

// Undo is how to take Script back, all but the sysctls: their old values are not
// in a Plan.
func Undo(p redirect.Plan) string {
	var b strings.Builder
	for _, r := range p.Rules {
		fmt.Fprintf(&b, "ip -%d rule del %s\n", r.Family, ruleText(r))
	}
	for _, r := range p.Routes {
		fmt.Fprintf(&b, "ip -%d route del %s\n", r.Family, routeText(r))
	}
	return b.String()
}

func ruleText(r redirect.Rule) string {
	return fmt.Sprintf("fwmark %#x/%#x pref %d lookup %d", r.Mark, r.Mask, r.Priority, r.Table)
}

func routeText(r redirect.Route) string {
	return fmt.Sprintf("local default dev lo table %d", r.Table)
}
