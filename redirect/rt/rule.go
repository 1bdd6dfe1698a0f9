package rt

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sluice-mesh/sluice/redirect"
)

// ErrForeign is wrapped when something that is not ours is in the way.
var ErrForeign = errors.New("belongs to somebody else")

// AddRule adds r unless it is there.
func (c *Conn) AddRule(r redirect.Rule) (added bool, err error) {
	there, err := c.hasRule(r)
	if err != nil || there {
		return false, err
	}
	if err := c.h.RuleAdd(toRule(r)); err != nil && !errors.Is(err, unix.EEXIST) {
		return false, c.fault("add "+ruleText(r), err)
	}
	return true, nil
}

// DelRule deletes r if it is there, and no other rule.
func (c *Conn) DelRule(r redirect.Rule) (deleted bool, err error) {
	there, err := c.hasRule(r)
	if err != nil || !there {
		return false, err
	}
	err = c.h.RuleDel(toRule(r))
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, c.fault("delete "+ruleText(r), err)
	}
	return true, nil
}

// hasRule looks for exactly r. The kernel deletes the first rule that agrees in
// what is asked for, and takes what is not asked for as anything: a narrower
// rule of somebody else before ours would be hit, so it is an error.
func (c *Conn) hasRule(r redirect.Rule) (bool, error) {
	list, err := again(func() ([]netlink.Rule, error) { return c.h.RuleList(family(r.Family)) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) {
		return false, nil // a kernel without this family has no rules of it
	}
	if err != nil {
		return false, c.fault("list policy rules", err)
	}
	for _, have := range list {
		if have.Priority != r.Priority || have.Mark != r.Mark || have.Table != r.Table || have.Mask == nil || *have.Mask != r.Mask {
			continue
		}
		if narrower(have) {
			return false, c.fault(ruleText(r), fmt.Errorf("a narrower rule (%v) %w; give it another preference", have, ErrForeign))
		}
		return true, nil
	}
	return false, nil
}

// narrower reports whether r asks for more than a mark.
func narrower(r netlink.Rule) bool {
	return r.Src != nil || r.Dst != nil || r.IifName != "" || r.OifName != "" || r.Invert || r.Tos != 0 ||
		r.TunID != 0 || r.IPProto != 0 || r.Dport != nil || r.Sport != nil || r.UIDRange != nil ||
		r.SuppressIfgroup > 0 || r.SuppressPrefixlen > 0
}

func toRule(r redirect.Rule) *netlink.Rule {
	rule := netlink.NewRule()
	rule.Family = family(r.Family)
	rule.Priority = r.Priority
	rule.Mark = r.Mark
	rule.Mask = &r.Mask
	rule.Table = r.Table
	return rule
}
