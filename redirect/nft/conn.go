package nft

import (
	"errors"
	"fmt"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// patience bounds each exchange with the kernel, which answers at once unless it
// has to load a module first.
const patience = 10 * time.Second

// dial opens an nf_tables socket in ns. The socket stays there for life.
func dial(ns *netns.Handle) (conn *netlink.Conn, err error) {
	err = ns.Do(func() error {
		conn, err = netlink.Dial(unix.NETLINK_NETFILTER, nil)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("nf_tables socket in %v: %w", ns.ID(), err)
	}
	// The kernel's own words are a convenience: no error when it has none. (Not
	// with CapAcknowledge: mdlayher/netlink 1.11.2 can't read the two together.)
	conn.SetOption(netlink.ExtendedAcknowledge, true)
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// run sends s as one transaction to the kernel of ns: all of it happens, or
// nothing. A rehearsal has the kernel go through all steps and take them back.
func (s *script) run(ns *netns.Handle, rehearse bool) error {
	if err := s.err(); err != nil {
		return err
	}
	conn, err := dial(ns)
	if err != nil {
		return err
	}
	defer conn.Close()

	batch := []netlink.Message{bracket(unix.NFNL_MSG_BATCH_BEGIN)}
	for _, m := range s.msgs {
		batch = append(batch, m.Message)
	}
	if !rehearse { // without an end the kernel takes everything back (nfnetlink_rcv_batch)
		batch = append(batch, bracket(unix.NFNL_MSG_BATCH_END))
	}
	sent, err := conn.SendMessages(batch)
	if err != nil {
		return fmt.Errorf("send nf_tables transaction: %w", err)
	}
	// The kernel answers every message, in their order, and goes on after an
	// error; an error of the transaction as a whole names its beginning.
	for waiting := len(s.msgs); waiting > 0; {
		replies, err := conn.Receive()
		if err != nil {
			return s.explain(err, sent)
		}
		waiting -= len(replies)
	}
	return nil
}

// explain says which step failed, and what may be done about it.
func (s *script) explain(err error, sent []netlink.Message) error {
	what := "nf_tables transaction"
	op, ok := errors.AsType[*netlink.OpError](err)
	if ok && op.Sequence != 0 {
		for i, m := range s.msgs {
			if sent[i+1].Header.Sequence == op.Sequence {
				what = m.what
			}
		}
		err = op.Err
		if op.Message != "" {
			err = fmt.Errorf("%w (kernel: %s)", err, op.Message)
		}
	}
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%s: %w: CAP_NET_ADMIN is needed in the namespace; run as root", what, err)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EAFNOSUPPORT):
		return fmt.Errorf("%s: %w: %w", what, sys.ErrUnsupported, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func bracket(kind int) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(kind), Flags: netlink.Request},
		Data:   nfgenmsg(unix.AF_UNSPEC, unix.NFNL_SUBSYS_NFTABLES),
	}
}

// exists asks for one object, by a GET message with these attributes.
func exists(ns *netns.Handle, kind int, attrs ...netlink.Attribute) (bool, error) {
	conn, err := dial(ns)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	data, err := netlink.MarshalAttributes(attrs)
	if err != nil {
		return false, err
	}
	_, err = conn.Execute(netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind), Flags: netlink.Request},
		Data:   append(nfgenmsg(unix.NFPROTO_INET, 0), data...),
	})
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil
	case errors.Is(err, unix.EPERM):
		return false, fmt.Errorf("%w: CAP_NET_ADMIN is needed in the namespace; run as root", err)
	}
	return err == nil, err
}
