package nft

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/sluice-mesh/sluice/redirect"
)

// reg is the register that every match works in, as nft does.
const reg = 1

// tcpFlagsByte is where the flags lie in a TCP header; the bits are those of
// FIN, SYN, RST and ACK.
const (
	tcpFlagsByte = 13
	flagSYN      = 0x02
	flagMask     = 0x01 | flagSYN | 0x04 | 0x10
)

// A compiler turns the terms of one row into expressions, the same that nft makes
// of the row's text. It remembers which protocols the row has settled on, so that
// the checks which a term implies are made once.
type compiler struct {
	set    func([]netip.Prefix) (id uint32) // makes an anonymous set
	exprs  [][]byte
	l4     redirect.Proto
	family redirect.Family
	err    error
}

// compile returns the expressions of r, each as the kernel takes it.
func compile(r redirect.Row, set func([]netip.Prefix) uint32) ([][]byte, error) {
	c := compiler{set: set}
	for _, t := range r {
		c.term(t)
	}
	return c.exprs, c.err
}

func (c *compiler) add(list ...expr.Any) {
	for _, e := range list {
		b, err := expr.Marshal(unix.NFPROTO_INET, e)
		if err != nil && c.err == nil {
			c.err = fmt.Errorf("encode %T: %w", e, err)
		}
		c.exprs = append(c.exprs, b)
	}
}

func (c *compiler) term(t redirect.Term) {
	switch t := t.(type) {
	case redirect.InIface:
		c.add(meta(expr.MetaKeyIIFNAME), cmp(t.Not, ifname(t.Name)))
	case redirect.OutIface:
		c.add(meta(expr.MetaKeyOIFNAME), cmp(t.Not, ifname(t.Name)))
	case redirect.IP:
		c.needFamily(t.Family)
	case redirect.L4:
		c.needL4(t.Proto)
	case redirect.Mark:
		c.add(meta(expr.MetaKeyMARK), and(host(redirect.MarkMask)), cmp(t.Not, host(t.Value)))
	case redirect.SocketMark:
		c.add(&expr.Socket{Key: expr.SocketKeyMark, Register: reg}, and(host(redirect.MarkMask)), cmp(false, host(t.Value)))
	case redirect.Transparent:
		c.add(&expr.Socket{Key: expr.SocketKeyTransparent, Register: reg}, cmp(false, []byte{flag(!t.Not)}))
	case redirect.SYN:
		c.needL4(redirect.TCP)
		c.add(load(expr.PayloadBaseTransportHeader, tcpFlagsByte, 1), and([]byte{flagMask}), cmp(t.Not, []byte{flagSYN}))
	case redirect.NotLocal:
		c.add(&expr.Fib{Register: reg, FlagDADDR: true, ResultADDRTYPE: true}, cmp(true, host(unix.RTN_LOCAL)))
	case redirect.SrcPort:
		c.needL4(t.Proto)
		c.add(load(expr.PayloadBaseTransportHeader, 0, 2), cmp(t.Not, port(t.Port)))
	case redirect.DstPort:
		c.needL4(t.Proto)
		c.add(load(expr.PayloadBaseTransportHeader, 2, 2), cmp(false, port(t.Port)))
	case redirect.From:
		f := familyOf(t.Addr)
		c.needFamily(f)
		c.add(loadAddr(f, 12, 8), cmp(false, t.Addr.AsSlice()))
	case redirect.FromPrefix:
		f := familyOf(t.Prefix.Addr())
		c.needFamily(f)
		c.add(loadAddr(f, 12, 8), and(mask(t.Prefix)), cmp(false, t.Prefix.Addr().AsSlice()))
	case redirect.To:
		f := familyOf(t.Prefixes[0].Addr())
		c.needFamily(f)
		c.add(loadAddr(f, 16, 24), &expr.Lookup{SourceRegister: reg, SetName: anonymous, SetID: c.set(t.Prefixes)})
	case redirect.SetMark:
		// The kernel computes (mark & mask) ^ xor; the bits of xor are not in mask.
		c.add(meta(expr.MetaKeyMARK),
			&expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: 4, Mask: host(^uint32(redirect.MarkMask)), Xor: host(t.Value)},
			&expr.Meta{Key: expr.MetaKeyMARK, Register: reg, SourceRegister: true})
	case redirect.TProxy:
		c.add(&expr.Immediate{Register: reg, Data: port(t.Port)},
			&expr.TProxy{Family: byte(nfproto(t.Family)), TableFamily: unix.NFPROTO_INET, RegPort: reg})
	case redirect.Accept:
		c.add(&expr.Verdict{Kind: expr.VerdictAccept})
	case redirect.Drop:
		c.add(&expr.Verdict{Kind: expr.VerdictDrop})
	case redirect.Goto:
		c.add(&expr.Verdict{Kind: expr.VerdictGoto, Chain: t.Chain})
	case redirect.Named:
		b, err := netlink.MarshalAttributes([]netlink.Attribute{{Type: unix.NFTA_EXPR_NAME, Data: cstring(t.Expr)}})
		if err != nil && c.err == nil {
			c.err = err
		}
		c.exprs = append(c.exprs, b)
	default:
		panic(fmt.Sprintf("nft: no expressions for a term of type %T", t))
	}
}

// needL4 has the packet's protocol checked before its header is looked into.
func (c *compiler) needL4(p redirect.Proto) {
	if c.l4 == p {
		return
	}
	c.l4 = p
	c.add(meta(expr.MetaKeyL4PROTO), cmp(false, []byte{byte(p)}))
}

func (c *compiler) needFamily(f redirect.Family) {
	if c.family == f {
		return
	}
	c.family = f
	c.add(meta(expr.MetaKeyNFPROTO), cmp(false, []byte{byte(nfproto(f))}))
}

func meta(key expr.MetaKey) expr.Any { return &expr.Meta{Key: key, Register: reg} }

func cmp(not bool, data []byte) expr.Any {
	op := expr.CmpOpEq
	if not {
		op = expr.CmpOpNeq
	}
	return &expr.Cmp{Op: op, Register: reg, Data: data}
}

func and(mask []byte) expr.Any {
	return &expr.Bitwise{SourceRegister: reg, DestRegister: reg, Len: uint32(len(mask)), Mask: mask, Xor: make([]byte, len(mask))}
}

func load(base expr.PayloadBase, offset, length uint32) expr.Any {
	return &expr.Payload{DestRegister: reg, Base: base, Offset: offset, Len: length}
}

// loadAddr loads an address from where it lies in the family's header.
func loadAddr(f redirect.Family, offset4, offset6 uint32) expr.Any {
	if f == redirect.IPv4 {
		return load(expr.PayloadBaseNetworkHeader, offset4, 4)
	}
	return load(expr.PayloadBaseNetworkHeader, offset6, 16)
}

func nfproto(f redirect.Family) int {
	if f == redirect.IPv6 {
		return unix.NFPROTO_IPV6
	}
	return unix.NFPROTO_IPV4
}

func familyOf(a netip.Addr) redirect.Family {
	if a.Is4() {
		return redirect.IPv4
	}
	return redirect.IPv6
}

// mask is a prefix's length as bits.
func mask(p netip.Prefix) []byte { return net.CIDRMask(p.Bits(), p.Addr().BitLen()) }

func flag(is bool) byte {
	if is {
		return 1
	}
	return 0
}

func host(v uint32) []byte    { return binaryutil.NativeEndian.PutUint32(v) }
func port(p uint16) []byte    { return binary.BigEndian.AppendUint16(nil, p) }
func cstring(s string) []byte { return append([]byte(s), 0) }
func big32(v uint32) []byte   { return binary.BigEndian.AppendUint32(nil, v) }
func ifname(name string) []byte {
	return slices.Concat([]byte(name), make([]byte, unix.IFNAMSIZ-len(name)))
}
