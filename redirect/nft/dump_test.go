package nft_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/sluice-mesh/sluice/bench/lab"
)

// setHandle is NFTA_SET_HANDLE (linux/netfilter/nf_tables.h).
const setHandle = 16

// dump is what the kernel holds below table inet sluice: each chain, set, set
// element list and rule as the attributes in which it answers, without those
// that count or number objects. Expressions are compared as they are, also those
// that libraries drop when they read them.
func dump(t *testing.T, s *lab.Space) []string {
	t.Helper()
	var conn *netlink.Conn
	err := s.Do(func() (err error) {
		conn, err = netlink.Dial(unix.NETLINK_NETFILTER, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()

	var out, sets []string
	ask := func(kind int, flags netlink.HeaderFlags, attrs ...netlink.Attribute) []netlink.Message {
		data, err := netlink.MarshalAttributes(attrs)
		if err != nil {
			t.Fatal(err)
		}
		got, err := conn.Execute(netlink.Message{
			Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind), Flags: netlink.Request | flags},
			Data:   append([]byte{unix.NFPROTO_INET, 0, 0, 0}, data...),
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	table := netlink.Attribute{Type: unix.NFTA_RULE_TABLE, Data: []byte("sluice\x00")}
	for _, m := range ask(unix.NFT_MSG_GETCHAIN, netlink.Dump) {
		out = append(out, "chain"+render(t, m.Data[4:], unix.NFTA_CHAIN_HANDLE, unix.NFTA_CHAIN_USE))
	}
	for _, m := range ask(unix.NFT_MSG_GETSET, netlink.Dump, table) {
		// A set's user data also holds in what words nft was given it.
		out = append(out, "set"+render(t, m.Data[4:], setHandle, unix.NFTA_SET_USERDATA))
		sets = append(sets, field(t, m.Data[4:], unix.NFTA_SET_NAME))
	}
	for _, name := range sets {
		for _, m := range ask(unix.NFT_MSG_GETSETELEM, netlink.Dump, table,
			netlink.Attribute{Type: unix.NFTA_SET_ELEM_LIST_SET, Data: []byte(name + "\x00")}) {
			out = append(out, "elements"+render(t, m.Data[4:]))
		}
	}
	for _, m := range ask(unix.NFT_MSG_GETRULE, netlink.Dump, table) {
		out = append(out, "rule"+render(t, m.Data[4:], unix.NFTA_RULE_HANDLE, unix.NFTA_RULE_POSITION, unix.NFTA_RULE_USERDATA))
	}
	return out
}

// render writes attributes as "number:hex", without those of the given types.
func render(t *testing.T, b []byte, without ...uint16) string {
	t.Helper()
	attrs, err := netlink.UnmarshalAttributes(b)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, a := range attrs {
		if kind := a.Type &^ unix.NLA_F_NESTED; !slices.Contains(without, kind) {
			fmt.Fprintf(&out, "\n  %d:%x", kind, a.Data)
		}
	}
	return out.String()
}

func field(t *testing.T, b []byte, want uint16) string {
	t.Helper()
	dec, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		t.Fatal(err)
	}
	dec.ByteOrder = binary.BigEndian
	for dec.Next() {
		if dec.Type() == want {
			return dec.String()
		}
	}
	t.Fatalf("no attribute %d: %v", want, dec.Err())
	return ""
}
