package h2

// Freeze appends the state of the Reader between two calls of Next. What an event has
// lent is not part of it.
func (r *Reader) Freeze(b []byte) []byte {
	if r.lent {
		r.release()
	}
	b = append(b, stateVersion, byte(r.role), r.at, bits(r.settled, r.first, r.ended), r.have, r.typ, r.flags, r.wire)
	b = appendUints(b, r.maxFrame, r.maxBlock, uint32(r.conts), r.stream, r.length, r.left, r.pad, r.expected)
	return appendBytes(append(b, r.head[:]...), r.hold)
}

// Thaw makes r what was frozen. A Reader that had met a *ConnError has no future and
// is refused, as is a state in which no Reader can be.
func (r *Reader) Thaw(b []byte) error {
	s := newStateReader("reader", b)
	n := Reader{role: Role(s.byte()), at: s.byte()}
	f := s.byte()
	n.settled, n.first, n.ended = f&1 != 0, f&2 != 0, f&4 != 0
	n.have, n.typ, n.flags, n.wire = s.byte(), s.byte(), s.byte(), s.byte()
	n.maxFrame, n.maxBlock = s.uint(maxFrameSize), s.uint(maxFrameSize)
	n.conts = uint16(s.uint(maxContinued))
	n.stream, n.length, n.left, n.pad, n.expected = s.uint(MaxID), s.uint(maxFrameSize), s.uint(maxFrameSize), s.uint(maxFrameSize), s.uint(MaxID)
	for i := range n.head {
		n.head[i] = s.byte()
	}
	n.hold = s.bytes(max(n.maxBlock+maxHeadersExtra, maxSettings))
	if s.err == nil && !n.possible() {
		s.fail("no reader can be in this state")
	}
	if err := s.done(); err != nil {
		return err
	}
	*r = n
	return nil
}

// possible reports whether Next can have brought the Reader into its state: what
// finish and the others rely on holds.
func (r *Reader) possible() bool {
	if r.role > Server || r.maxFrame < minFrameSize {
		return false
	}
	held := uint32(len(r.hold))
	switch r.at {
	case inPreface:
		return r.role == Server && !r.settled && int(r.have) < len(Preface) && r.expected == 0 && held == 0
	case inHead:
		return r.have < HeadBytes && r.left == 0 && r.pad == 0 && r.wire == 0 && (r.expected == 0 && held == 0 || r.settled)
	}
	if r.have != 0 && r.at != inPriority {
		return false
	}
	if !r.settled || r.length > r.maxFrame || r.left+r.pad > r.length || r.wire > 1 {
		return false
	}
	block := r.typ == typeHeaders || r.typ == typeContinuation
	if (r.expected != 0) != block || block && r.expected != r.stream || block && r.stream == 0 {
		return false
	}
	total := held + r.left
	switch r.at {
	case inPadLength:
		need := uint32(1)
		if r.typ == typeHeaders && r.flags&flagPriority != 0 {
			need = 6
		}
		return (r.typ == typeData && r.stream != 0 || r.typ == typeHeaders) && r.left == r.length && r.left >= need && held == 0 && r.wire == 0
	case inPriority:
		return r.typ == typeHeaders && r.have < 5 && r.left >= 5-uint32(r.have) && held == 0
	case inData:
		return r.typ == typeData && r.stream != 0 && held == 0
	case inHold:
		switch r.typ {
		case typeHeaders, typeContinuation:
			return total <= r.maxBlock+maxHeadersExtra
		case typeReset:
			return total == 4 && r.pad == 0 && r.stream != 0
		case typeWindow:
			return total == 4 && r.pad == 0
		case typePing:
			return total == 8 && r.pad == 0 && r.stream == 0
		case typeGoAway:
			return total >= 8 && total <= 8+maxDebug && r.stream == 0
		case typeSettings:
			return total == r.length && total%6 == 0 && total <= maxSettings && r.stream == 0 && (r.flags&flagAck == 0 || total == 0)
		case typePush, typeData:
			return false
		case typePriority:
			return total == 0 && r.stream != 0
		}
		return total == 0
	}
	return false
}

// Freeze appends the state of the Decoder, a table that the peer filled included.
func (d *Decoder) Freeze(b []byte) []byte {
	f := &d.fields
	b = append(b, stateVersion, bits(f.update))
	b = appendUints(b, uint32(d.limit), f.allowed, f.table.max, uint32(len(f.table.entries)))
	for _, e := range f.table.entries {
		b = appendBytes(appendBytes(b, e.name), e.value)
	}
	return b
}

// Thaw makes d what was frozen.
func (d *Decoder) Thaw(b []byte) error {
	s := newStateReader("header decoder", b)
	flags := s.byte()
	n := Decoder{limit: int(s.uint(1 << 30))}
	f := &n.fields
	f.allowed, f.table.max = s.uint(defaultHeaderTableBytes), s.uint(defaultHeaderTableBytes)
	f.update = flags&1 != 0
	for range s.uint(defaultHeaderTableBytes / fieldOverhead) {
		e := tableEntry{name: s.bytes(defaultHeaderTableBytes), value: s.bytes(defaultHeaderTableBytes)}
		f.table.entries = append(f.table.entries, e)
		f.table.size += e.size()
	}
	s.check(f.table.size <= f.table.max, "a table larger than its limit")
	s.check(f.allowed == 0 || !f.update, "a change of the table's size that nobody asked for")
	if err := s.done(); err != nil {
		return err
	}
	*d = n
	return nil
}

// Freeze appends the state of the ids.
func (s *Streams) Freeze(b []byte) []byte {
	b = append(b, stateVersion, byte(s.role), bits(s.away, s.sentAway), s.resetAt)
	b = appendUints(b, s.max, s.next, s.peer, s.ours, s.their, s.last, s.sentLast)
	return appendUints(b, s.reset[:]...)
}

// Thaw makes s what was frozen.
func (s *Streams) Thaw(b []byte) error {
	r := newStateReader("streams", b)
	n := Streams{role: Role(r.byte())}
	flags := r.byte()
	n.away, n.sentAway, n.resetAt = flags&1 != 0, flags&2 != 0, r.byte()
	n.max, n.next, n.peer = r.uint(1<<32-1), r.uint(MaxID+2), r.uint(MaxID)
	n.ours, n.their, n.last, n.sentLast = r.uint(MaxID), r.uint(MaxID), r.uint(MaxID), r.uint(MaxID)
	for i := range n.reset {
		n.reset[i] = r.uint(MaxID)
	}
	r.check(n.role <= Server && n.resetAt < resets, "no such role, or place in the list of resets")
	r.check(n.next > 0 && (n.peer == 0 || n.theirs(n.peer)) && !n.theirs(n.next), "ids of the wrong side")
	if err := r.done(); err != nil {
		return err
	}
	*s = n
	return nil
}

// Freeze appends the state of the stream.
func (s *Stream) Freeze(b []byte) []byte {
	b = append(b, stateVersion, s.state)
	return appendUints(b, s.ID, uint32(s.Send), uint32(s.Recv.Window), s.Recv.Owed)
}

// Thaw makes s what was frozen.
func (s *Stream) Thaw(b []byte) error {
	r := newStateReader("stream", b)
	n := Stream{state: r.byte(), ID: r.uint(MaxID)}
	n.Send = Window(r.uint(1<<32 - 1))
	n.Recv = Inflow{Window: Window(r.uint(1<<32 - 1)), Owed: r.uint(maxWindow)}
	r.check(n.ID != 0 && n.state < stateBits, "no such id or state")
	r.check(n.Send >= -maxWindow && n.Recv.Window >= -maxWindow, "windows out of range")
	if err := r.done(); err != nil {
		return err
	}
	*s = n
	return nil
}

// Freeze appends the settings.
func (s *Settings) Freeze(b []byte) []byte {
	return appendUints(append(b, stateVersion), s.Streams, s.Window, s.Frame, s.HeaderList)
}

// Thaw makes s what was frozen.
func (s *Settings) Thaw(b []byte) error {
	r := newStateReader("settings", b)
	n := Settings{Streams: r.uint(1<<32 - 1), Window: r.uint(maxWindow), Frame: r.uint(maxFrameSize), HeaderList: r.uint(1<<32 - 1)}
	r.check(n.Frame >= minFrameSize, "a frame size that no peer may have")
	if err := r.done(); err != nil {
		return err
	}
	*s = n
	return nil
}
