package redirect

// The chains. Base chains are named for their hook.
const (
	chainFromLo  = "from_lo"
	chainFromNet = "from_net"
	chainTCPOut  = "tcp_out"
	chainSYNOut  = "syn_out"
)

// direct is the table of mode direct: TPROXY both ways, no NAT, no conntrack.
//
// A captured packet must find a transparent listener when it is the first, the
// established transparent socket afterwards, and be delivered locally. What comes
// from the network is local already; what the application sends is marked, and
// the policy rule turns it round to lo. A row that drops SYNs stands behind each
// tproxy, which falls through when nobody listens: no listener, no connection.
func direct(in Intent) Table {
	chains := []Chain{
		{
			Name: "prerouting",
			Hook: &Hook{Type: "filter", Point: "prerouting", Priority: hookPriority},
			Rows: []Row{
				{InIface{Name: "lo"}, Goto{chainFromLo}},
				{L4{TCP}, Goto{chainFromNet}},
			},
		},
		{Name: chainFromNet, Rows: fromNet(in)},
		{Name: chainFromLo, Rows: fromLo(in)},
		{
			// Of type route: a changed mark has the packet routed again.
			Name: "output",
			Hook: &Hook{Type: "route", Point: "output", Priority: hookPriority},
			Rows: []Row{
				{OutIface{Name: "lo"}, Accept{}},
				{L4{TCP}, Goto{chainTCPOut}},
			},
		},
		{Name: chainTCPOut, Rows: tcpOut(in)},
		{Name: chainSYNOut, Rows: append(spare(in), Row{SetMark{MarkCaptured}})},
		{
			// The guard: captured traffic never leaves in the clear, whatever
			// happens to routes, policy rules and bound sockets.
			Name: "postrouting",
			Hook: &Hook{Type: "filter", Point: "postrouting", Priority: hookPriority},
			Rows: []Row{{OutIface{Name: "lo", Not: true}, Mark{Value: MarkCaptured}, Drop{}}},
		},
	}
	if in.DNS {
		// An application that asks from port 53 is itself a server that forwards.
		output := &chains[3]
		output.Rows = append(output.Rows, Row{
			Mark{Value: MarkProxy, Not: true},
			DstPort{UDP, 53}, SrcPort{Proto: UDP, Port: 53, Not: true},
			SetMark{MarkCaptured},
		})
	}
	return Table{Name: TableName, Chains: chains}
}

// Seal is what to put at the head of the chains of mode direct so that no new
// connection is captured while those that are there end.
func Seal() Table {
	closed := []Row{{SYN{}, Drop{}}}
	return Table{Name: TableName, Chains: []Chain{
		{Name: chainFromNet, Rows: closed},
		{Name: chainSYNOut, Rows: closed},
	}}
}

// fromNet is what comes in by another interface than lo.
func fromNet(in Intent) []Row {
	rows := []Row{
		{SYN{Not: true}, Transparent{}, Accept{}}, // captured flows; keeps early demux
		{NotLocal{}, Accept{}},                    // forwarded: not ours, the mark untouched
		{SetMark{MarkNetwork}},
		{DstPort{TCP, PortHBONE}, Accept{}},
		{From{in.Probe4}, Accept{}},
		{From{in.Probe6}, Accept{}},
	}
	// Not only SYNs: the last ACK of a handshake with a cookie is none.
	rows = append(rows, tproxy(TCP, 0, PortInbound)...)
	return append(rows,
		Row{SYN{}, Drop{}},
		// The network may not write into the application's half of a flow, nor end
		// with the application a handshake that began with a proxy which is gone.
		Row{SocketMark{MarkProxy}, Accept{}},    // a socket of the proxy that need not be transparent
		Row{FromPrefix{linkLocal6()}, Accept{}}, // never captured on the way out
		Row{Transparent{Not: true}, Drop{}},
	)
}

// fromLo is what comes round by lo.
func fromLo(in Intent) []Row {
	rows := []Row{
		{Mark{Value: MarkProxy}, SetMark{MarkReply}, Accept{}},
		{Mark{Value: MarkCaptured, Not: true}, Accept{}},
	}
	if in.DNS {
		rows = append(rows, tproxy(TCP, 53, PortDNS)...)
	}
	rows = append(rows, tproxy(TCP, 0, PortOutbound)...)
	rows = append(rows,
		Row{SYN{}, Drop{}},                           // or the pod's own *:port may get it
		Row{L4{TCP}, Transparent{Not: true}, Drop{}}, // and what ends a handshake, as above
	)
	if in.DNS {
		rows = append(rows, tproxy(UDP, 53, PortDNS)...)
		rows = append(rows, Row{DstPort{UDP, 53}, Drop{}})
	}
	return rows
}

// tcpOut is the TCP that leaves by another interface than lo.
func tcpOut(in Intent) []Row {
	rows := []Row{
		{Mark{Value: MarkProxy}, Accept{}},
		// Before MarkNetwork: a socket that inherited a mark may connect again.
		{SYN{}, Goto{chainSYNOut}},
		{Mark{Value: MarkNetwork}, Accept{}},
	}
	rows = append(rows, spare(in)...)
	return append(rows, Row{SetMark{MarkCaptured}})
}

// spare lets destinations pass that are never captured.
func spare(in Intent) []Row {
	return []Row{
		{To{in.spared(IPv4)}, Accept{}},
		{To{in.spared(IPv6)}, Accept{}},
	}
}

// tproxy gives packets of proto, to port only unless it is 0, to the listener on
// to, in both families.
//
// For TCP the expression looks for a connection first, and finds a half-open one
// or one in TIME_WAIT too, whose listener may be gone by now. TCP would then look
// again, by the destination alone, and find the application. Such sockets have no
// mark for the expression that asks (nft_socket_eval); what has one is a listener
// or a connection.
func tproxy(proto Proto, port, to uint16) []Row {
	var rows []Row
	for _, f := range []Family{IPv4, IPv6} {
		match := Row{IP{f}, L4{proto}}
		if port != 0 {
			match = Row{DstPort{proto, port}, IP{f}}
		}
		match = append(match, TProxy{f, to})
		if proto == TCP {
			match = append(match, SocketMark{MarkProxy})
		}
		rows = append(rows, append(match, Accept{}))
	}
	return rows
}
