package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/sluice-mesh/sluice/redirect"
)

// anonymous is the name by which the kernel is asked to find one by itself.
const anonymous = "__set%d"

// The data types of set keys, as nft numbers them: the kernel keeps the number
// and nft prints by it.
const (
	typeIPv4Addr = 7
	typeIPv6Addr = 8
)

// userdataByteOrderBig tells nft that a set's keys are in network order.
const userdataByteOrderBig = 2

// policyAccept is NF_ACCEPT (linux/netfilter.h).
const policyAccept = 1

// A message is one step of a transaction, with a name for error messages.
type message struct {
	netlink.Message
	what string
}

// A script is the list of messages that makes or removes a table.
//
// The envelopes are our own, with expressions by the nftables library: its
// connection can neither rehearse a transaction nor say which step of it failed,
// and numbers sets through a variable that all connections share unguarded.
type script struct {
	msgs []message
	sets uint32
	errs []error
}

// makeTable makes t where no table has its name; it is an error (EEXIST) where
// one has.
func makeTable(t redirect.Table) *script {
	s := new(script)
	s.newTable(t.Name, unix.NLM_F_EXCL)
	s.fill(t)
	return s
}

// replaceTable makes t in place of whatever has its name.
func replaceTable(t redirect.Table) *script {
	s := new(script)
	s.deleteTable(t.Name)
	s.newTable(t.Name, 0)
	s.fill(t)
	return s
}

// fill makes the chains and rows of t in an empty table.
func (s *script) fill(t redirect.Table) {
	for _, c := range t.Chains { // all of them first: rows go to later ones
		s.newChain(t.Name, c)
	}
	for _, c := range t.Chains {
		for i, r := range c.Rows {
			s.newRule(t.Name, c.Name, fmt.Sprintf("row %d of chain %s (%s)", i+1, c.Name, rowText(r)), r, unix.NLM_F_APPEND)
		}
	}
}

// deleteTable removes the table name, also when it is not there.
func (s *script) deleteTable(name string) {
	s.newTable(name, 0)
	s.put(unix.NFT_MSG_DELTABLE, 0, "delete table "+name, attr(unix.NFTA_TABLE_NAME, cstring(name)))
}

func (s *script) newTable(name string, flag netlink.HeaderFlags) {
	s.put(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE|flag, "table "+name,
		attr(unix.NFTA_TABLE_NAME, cstring(name)),
		attr(unix.NFTA_TABLE_FLAGS, big32(0)))
}

func (s *script) newChain(table string, c redirect.Chain) {
	attrs := []netlink.Attribute{
		attr(unix.NFTA_CHAIN_TABLE, cstring(table)),
		attr(unix.NFTA_CHAIN_NAME, cstring(c.Name)),
	}
	if h := c.Hook; h != nil {
		number, ok := hookNumber(h.Point)
		if !ok {
			s.errs = append(s.errs, fmt.Errorf("chain %s: no hook is called %q", c.Name, h.Point))
		}
		attrs = append(attrs,
			s.nest(unix.NFTA_CHAIN_HOOK,
				attr(unix.NFTA_HOOK_HOOKNUM, big32(number)),
				attr(unix.NFTA_HOOK_PRIORITY, big32(uint32(int32(h.Priority))))),
			attr(unix.NFTA_CHAIN_POLICY, big32(policyAccept)),
			attr(unix.NFTA_CHAIN_TYPE, cstring(h.Type)))
	}
	s.put(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, "chain "+c.Name, attrs...)
}

// newRule adds r at the end of a chain with flag NLM_F_APPEND, else at its head.
func (s *script) newRule(table, chain, what string, r redirect.Row, flag netlink.HeaderFlags) {
	list, err := compile(r, func(p []netip.Prefix) uint32 { return s.newSet(table, what, p) })
	if err != nil {
		s.errs = append(s.errs, fmt.Errorf("%s: %w", what, err))
		return
	}
	elems := make([]netlink.Attribute, len(list))
	for i, e := range list {
		elems[i] = attr(unix.NLA_F_NESTED|unix.NFTA_LIST_ELEM, e)
	}
	s.put(unix.NFT_MSG_NEWRULE, unix.NLM_F_CREATE|flag, what,
		attr(unix.NFTA_RULE_TABLE, cstring(table)),
		attr(unix.NFTA_RULE_CHAIN, cstring(chain)),
		s.nest(unix.NFTA_RULE_EXPRESSIONS, elems...))
}

// newSet makes an anonymous set of the prefixes, which are of one family and do
// not overlap, and returns the number by which this transaction knows it.
func (s *script) newSet(table, what string, prefixes []netip.Prefix) uint32 {
	s.sets++
	key, length := uint32(typeIPv4Addr), uint32(4)
	if !prefixes[0].Addr().Is4() {
		key, length = typeIPv6Addr, 16
	}
	marks := intervals(prefixes)
	var elems []netlink.Attribute
	for i, m := range marks {
		var a []netlink.Attribute
		if m.end {
			a = append(a, attr(unix.NFTA_SET_ELEM_FLAGS, big32(unix.NFT_SET_ELEM_INTERVAL_END)))
		}
		a = append(a, s.nest(unix.NFTA_SET_ELEM_KEY, attr(unix.NFTA_DATA_VALUE, m.at.AsSlice())))
		elems = append(elems, s.nest(uint16(i+1), a...))
	}
	info := userdata.AppendUint32(nil, userdata.NFTNL_UDATA_SET_KEYBYTEORDER, userdataByteOrderBig)
	s.put(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, "set for "+what,
		attr(unix.NFTA_SET_TABLE, cstring(table)),
		attr(unix.NFTA_SET_NAME, cstring(anonymous)),
		attr(unix.NFTA_SET_FLAGS, big32(unix.NFT_SET_ANONYMOUS|unix.NFT_SET_CONSTANT|unix.NFT_SET_INTERVAL)),
		attr(unix.NFTA_SET_KEY_TYPE, big32(key)),
		attr(unix.NFTA_SET_KEY_LEN, big32(length)),
		attr(unix.NFTA_SET_ID, big32(s.sets)),
		s.nest(unix.NFTA_SET_DESC, attr(unix.NFTA_SET_DESC_SIZE, big32(uint32(len(marks))))),
		attr(unix.NFTA_SET_USERDATA, info))
	s.put(unix.NFT_MSG_NEWSETELEM, unix.NLM_F_CREATE, "elements of the set for "+what,
		attr(unix.NFTA_SET_ELEM_LIST_TABLE, cstring(table)),
		attr(unix.NFTA_SET_ELEM_LIST_SET, cstring(anonymous)),
		attr(unix.NFTA_SET_ELEM_LIST_SET_ID, big32(s.sets)),
		s.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS, elems...))
	return s.sets
}

// A boundary is where an interval begins, or the first address behind it.
type boundary struct {
	at  netip.Addr
	end bool
}

// intervals turns prefixes into the boundaries that the kernel wants, as nft
// does: first what lies before all of them, unless one begins at zero; prefixes
// that touch become one; none behind the last address of all.
func intervals(prefixes []netip.Prefix) []boundary {
	sorted := slices.Clone(prefixes)
	slices.SortFunc(sorted, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	zero := netip.IPv4Unspecified()
	if !sorted[0].Addr().Is4() {
		zero = netip.IPv6Unspecified()
	}
	marks := []boundary{{zero, true}}
	for _, p := range sorted {
		from := p.Masked().Addr()
		if open := len(marks) - 1; marks[open].at == from { // where the last one ends
			marks = marks[:open]
		}
		if n := len(marks); n == 0 || marks[n-1].end {
			marks = append(marks, boundary{from, false})
		}
		if next := last(p).Next(); next.IsValid() {
			marks = append(marks, boundary{next, true})
		}
	}
	return marks
}

// last is the last address in p.
func last(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(b)*8; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

func hookNumber(point string) (uint32, bool) {
	switch point {
	case "prerouting":
		return unix.NF_INET_PRE_ROUTING, true
	case "output":
		return unix.NF_INET_LOCAL_OUT, true
	case "postrouting":
		return unix.NF_INET_POST_ROUTING, true
	}
	return 0, false
}

// put appends a message of family inet.
func (s *script) put(kind int, flags netlink.HeaderFlags, what string, attrs ...netlink.Attribute) {
	s.msgs = append(s.msgs, message{what: what, Message: netlink.Message{
		Header: netlink.Header{
			Type:  netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind),
			Flags: netlink.Request | netlink.Acknowledge | flags,
		},
		Data: append(nfgenmsg(unix.NFPROTO_INET, 0), s.marshal(attrs)...),
	}})
}

func (s *script) nest(kind uint16, attrs ...netlink.Attribute) netlink.Attribute {
	return attr(unix.NLA_F_NESTED|kind, s.marshal(attrs))
}

func (s *script) marshal(attrs []netlink.Attribute) []byte {
	b, err := netlink.MarshalAttributes(attrs)
	if err != nil {
		s.errs = append(s.errs, err)
	}
	return b
}

// err is what went wrong while the messages were made.
func (s *script) err() error { return errors.Join(s.errs...) }

func attr(kind uint16, data []byte) netlink.Attribute {
	return netlink.Attribute{Type: kind, Data: data}
}

// nfgenmsg is the header that each message of netfilter begins with.
func nfgenmsg(family byte, resource uint16) []byte {
	return binary.BigEndian.AppendUint16([]byte{family, unix.NFNETLINK_V0}, resource)
}
