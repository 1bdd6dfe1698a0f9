package rt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// Kernel numbers of sock_diag (linux/sock_diag.h, linux/inet_diag.h) that x/sys
// does not name.
const (
	tcpDiagGetSock  = 18 // TCPDIAG_GETSOCK
	reqBytecode     = 1  // INET_DIAG_REQ_BYTECODE
	attrMark        = 15 // INET_DIAG_MARK
	bytecodeMark    = 10 // INET_DIAG_BC_MARK_COND
	timerTimeWait   = 3  // idiag_timer of what is left of a closed socket
	sockIDBytes     = 48 // struct inet_diag_sockid
	diagReqBytes    = 8 + sockIDBytes
	diagMsgBytes    = 4 + sockIDBytes + 20
	stateTimeWait   = 6
	stateClose      = 7
	stateListen     = 10
	stateNewSYNRecv = 12
	allStates       = 1<<(stateNewSYNRecv+1) - 2
	// liveStates are those of sockets that can still carry data.
	liveStates = allStates &^ (1<<stateListen | 1<<stateTimeWait | 1<<stateClose)
)

// A Socket is one TCP socket of a namespace.
type Socket struct {
	Local, Remote netip.AddrPort // IPv4 addresses of an IPv6 socket as IPv4
	State         uint8          // TCP_ESTABLISHED and so on
	Mark          uint32

	family uint8
	id     [sockIDBytes]byte // as the kernel wrote it; its end is a number that no other socket gets
}

// Sockets lists the TCP sockets of ns, of both families, whose mark below mask
// is mark: those that can still carry data, hence none that listens and none in
// TIME_WAIT. A zero mask takes every mark.
func Sockets(ns *netns.Handle, mark, mask uint32) ([]Socket, error) {
	return sockets(ns, mark, mask, liveStates)
}

// Listeners lists the TCP sockets of ns that listen, as Sockets does the others.
func Listeners(ns *netns.Handle, mark, mask uint32) ([]Socket, error) {
	return sockets(ns, mark, mask, 1<<stateListen)
}

func sockets(ns *netns.Handle, mark, mask, states uint32) ([]Socket, error) {
	conn, err := dialDiag(ns)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	req, err := dumpRequest(mark, mask, states)
	if err != nil {
		return nil, err
	}
	replies, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: tcpDiagGetSock, Flags: netlink.Request | netlink.Dump},
		Data:   req,
	})
	if err != nil {
		return nil, diagFault(ns, "list TCP sockets", err)
	}
	var list []Socket
	for _, m := range replies {
		s, err := parseSocket(m.Data)
		if err != nil {
			return nil, diagFault(ns, "list TCP sockets", err)
		}
		if s.Mark&mask == mark&mask {
			list = append(list, s)
		}
	}
	return list, nil
}

// dumpRequest is a struct inet_diag_req: the older form of the question, which
// takes both families at once. Each dump walks the hash table of the whole
// machine, some 1 ms; the newer form would do so for each family.
func dumpRequest(mark, mask, states uint32) ([]byte, error) {
	b := make([]byte, 4+sockIDBytes, 4+sockIDBytes+8)
	b[0] = unix.AF_UNSPEC
	b = binary.NativeEndian.AppendUint32(b, states)
	b = binary.NativeEndian.AppendUint32(b, 0) // no tables named
	if mask == 0 {
		return b, nil
	}
	// One condition; where it fails, jump behind the end, which refuses.
	const size = 12 // struct inet_diag_bc_op and struct inet_diag_markcond
	code := []byte{bytecodeMark, size}
	code = binary.NativeEndian.AppendUint16(code, size+4)
	code = binary.NativeEndian.AppendUint32(code, mark)
	code = binary.NativeEndian.AppendUint32(code, mask)
	attr, err := netlink.MarshalAttributes([]netlink.Attribute{{Type: reqBytecode, Data: code}})
	return append(b, attr...), err
}

// parseSocket reads one struct inet_diag_msg with its attributes.
func parseSocket(b []byte) (Socket, error) {
	if len(b) < diagMsgBytes {
		return Socket{}, fmt.Errorf("socket record of %d bytes; want at least %d", len(b), diagMsgBytes)
	}
	s := Socket{family: b[0], State: b[1], id: [sockIDBytes]byte(b[4:])}
	length := 4
	switch s.family {
	case unix.AF_INET:
	case unix.AF_INET6:
		length = 16
	default:
		return Socket{}, fmt.Errorf("socket record of address family %d", s.family)
	}
	address := func(port, addr int) netip.AddrPort {
		a, _ := netip.AddrFromSlice(s.id[addr : addr+length])
		return netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(s.id[port:]))
	}
	s.Local, s.Remote = address(0, 4), address(2, 20)

	attrs, err := netlink.NewAttributeDecoder(b[diagMsgBytes:])
	if err != nil {
		return Socket{}, fmt.Errorf("socket record: %w", err)
	}
	marked := false
	for attrs.Next() {
		if attrs.Type() == attrMark {
			s.Mark, marked = attrs.Uint32(), true
		}
	}
	if err := attrs.Err(); err != nil {
		return Socket{}, fmt.Errorf("socket record: %w", err)
	}
	// The kernel leaves it out for those who may not know, and some versions do for
	// sockets that are closed and wait for the peer's FIN.
	if !marked && b[2] != timerTimeWait {
		return Socket{}, fmt.Errorf("socket record without a mark: %w", unix.EPERM)
	}
	return s, nil
}

// Reset ends sockets of ns at once, each with a reset to its peer, as though the
// application had done it. One that has ended meanwhile counts as reset. It
// returns how many are gone, and ErrUnsupported when the kernel can't do it.
func Reset(ns *netns.Handle, list []Socket) (done int, err error) {
	if len(list) == 0 {
		return 0, nil
	}
	conn, err := dialDiag(ns)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	for _, s := range list {
		err := destroy(conn, s)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return done, diagFault(ns, fmt.Sprintf("reset %v to %v", s.Local, s.Remote), err)
		}
		done++
	}
	return done, nil
}

func destroy(conn *netlink.Conn, s Socket) error {
	_, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.SOCK_DESTROY, Flags: netlink.Request | netlink.Acknowledge},
		Data:   diagRequest(s.family, s.id, allStates),
	})
	return err
}

// FeatureReset tells whether sockets can be reset from outside.
func FeatureReset() *sys.Feature {
	return sys.NewFeature("resetting sockets from outside, SOCK_DESTROY (CONFIG_INET_DIAG_DESTROY)", "4.5", func() error {
		ns, err := netns.Current()
		if err != nil {
			return err
		}
		defer ns.Close()
		var nobody Socket // from no address to no address
		nobody.family = unix.AF_INET
		_, err = Reset(ns, []Socket{nobody})
		return err
	})
}

// diagRequest is a struct inet_diag_req_v2 for TCP.
func diagRequest(family uint8, id [sockIDBytes]byte, states uint32) []byte {
	b := make([]byte, 0, diagReqBytes)
	b = append(b, family, unix.IPPROTO_TCP, 0, 0)
	b = binary.NativeEndian.AppendUint32(b, states)
	return append(b, id[:]...)
}

func dialDiag(ns *netns.Handle) (conn *netlink.Conn, err error) {
	err = ns.Do(func() error {
		conn, err = netlink.Dial(unix.NETLINK_SOCK_DIAG, nil)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("sock_diag socket in %v: %w", ns.ID(), err)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func diagFault(ns *netns.Handle, what string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%s in %v: %w: CAP_NET_ADMIN is needed in the namespace; run as root", what, ns.ID(), err)
	case errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%s in %v: %w: %w", what, ns.ID(), sys.ErrUnsupported, err)
	}
	return fmt.Errorf("%s in %v: %w", what, ns.ID(), err)
}
