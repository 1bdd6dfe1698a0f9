// Package nft carries the table of a Plan to a namespace's nf_tables, as one
// netlink transaction, and prints it as text for nft.
//
// Data enters as a redirect.Table. Commit makes it, Rehearse has the kernel try
// it, Delete takes it away; Script and Undo are the same as text. Every row
// becomes the expressions that nft itself makes of the row's text.
//
// Owns nothing between calls. Threads: any but a loop's.
package nft

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/redirect"
)

// Commit makes t in ns, in place of a table of the same name. All of it is
// there afterwards, or everything is as it was.
//
// A transaction that deletes something, or is taken back, waits for the kernel's
// readers, some 10 ms; one that only adds takes less than 1 ms. So the first one
// for a pod only adds.
func Commit(ns *netns.Handle, t redirect.Table) error {
	there, err := hasTable(ns, t.Name)
	if err == nil && !there {
		err = makeTable(t).run(ns, false)
		there = errors.Is(err, unix.EEXIST) // somebody was faster
	}
	if there {
		err = replaceTable(t).run(ns, false)
	}
	return wrap(ns, t.Name, err)
}

// Rehearse has the kernel of ns go through what Commit would do, without keeping
// anything. The error wraps sys.ErrUnsupported when the kernel lacks something.
func Rehearse(ns *netns.Handle, t redirect.Table) error {
	return wrap(ns, t.Name, replaceTable(t).run(ns, true))
}

// Insert puts the rows of t at the head of its chains, which must be there. A
// table or chain that is missing is no error: nothing happens then.
func Insert(ns *netns.Handle, t redirect.Table) error {
	s := new(script)
	for _, c := range t.Chains {
		for _, r := range slices.Backward(c.Rows) {
			s.newRule(t.Name, c.Name, fmt.Sprintf("row at the head of chain %s (%s)", c.Name, rowText(r)), r, 0)
		}
	}
	err := s.run(ns, false)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return wrap(ns, t.Name, err)
}

// Delete removes the table name and says whether it was there.
func Delete(ns *netns.Handle, name string) (bool, error) {
	was, err := hasTable(ns, name)
	if err != nil || !was {
		return false, wrap(ns, name, err)
	}
	s := new(script)
	s.deleteTable(name)
	return true, wrap(ns, name, s.run(ns, false))
}

func hasTable(ns *netns.Handle, name string) (bool, error) {
	return exists(ns, unix.NFT_MSG_GETTABLE, attr(unix.NFTA_TABLE_NAME, cstring(name)))
}

// Holds reports whether the last chain of t is in ns: a transaction that made
// one has made them all.
func Holds(ns *netns.Handle, t redirect.Table) (bool, error) {
	c := t.Chains[len(t.Chains)-1]
	was, err := exists(ns, unix.NFT_MSG_GETCHAIN,
		attr(unix.NFTA_CHAIN_TABLE, cstring(t.Name)),
		attr(unix.NFTA_CHAIN_NAME, cstring(c.Name)))
	return was, wrap(ns, t.Name, err)
}

func wrap(ns *netns.Handle, table string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("table inet %s in %v: %w", table, ns.ID(), err)
}
