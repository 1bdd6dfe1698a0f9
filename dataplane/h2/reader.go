package h2

import "encoding/binary"

const (
	maxSettings  = 4 << 10 // bytes of one SETTINGS frame
	maxDebug     = 256     // bytes of GOAWAY's debug data that are passed on
	maxContinued = 256     // CONTINUATION frames behind one HEADERS
	keepHold     = 4 << 10 // a larger buffer is given back after use
)

// Where a Reader is in its input.
const (
	inPreface = iota
	inHead
	inPadLength // DATA and HEADERS with the PADDED flag
	inPriority  // five bytes of HEADERS that nobody wants
	inData
	inHold // the payload of any other frame
	inFault
	inEnd // of the list
)

// A Reader cuts a connection's input into events. Make one with NewReader.
//
// Invariant: left bytes of the frame's content, then pad bytes of padding, are still
// to come; a frame is over, and its last event told, when both are 0.
type Reader struct {
	role     Role
	maxFrame uint32
	maxBlock uint32
	fault    *ConnError // told again for ever

	at       uint8
	settled  bool  // the first SETTINGS has begun
	first    bool  // no event of this DATA frame was told yet
	ended    bool  // the HEADERS that is being put together carried END_STREAM
	lent     bool  // hold is in an event; it is empty from the next call on
	have     uint8 // bytes of the preface, of head or of the priority
	typ      uint8
	flags    uint8
	wire     uint8  // bytes read before the payload that no event has told yet
	conts    uint16 // CONTINUATION frames of this block
	stream   uint32
	length   uint32 // of the frame's payload
	left     uint32
	pad      uint32
	expected uint32 // stream whose CONTINUATION must be next; 0 when none
	head     [HeadBytes]byte
	hold     []byte
}

// NewReader makes a Reader of what the peer of a role sends. It takes frames of up
// to maxFrame bytes, which is what our SETTINGS say, and blocks of up to maxBlock
// compressed bytes.
func NewReader(role Role, maxFrame, maxBlock uint32) Reader {
	r := Reader{role: role, maxFrame: max(maxFrame, minFrameSize), maxBlock: maxBlock, at: inHead}
	if role == Server {
		r.at = inPreface
	}
	return r
}

// MidFrame reports whether the input so far ends inside a frame, a block or the
// preface, so that an end of the connection here has cut something.
func (r *Reader) MidFrame() bool {
	return r.at != inHead || r.have != 0 || r.expected != 0 || !r.settled
}

// Next reads one event from b and returns what lies behind it. When nothing whole is
// left the event's Kind is KindNone and all of b has been taken. After a *StreamError
// the Reader stands behind the frame and goes on; after a *ConnError it is dead.
func (r *Reader) Next(b []byte) (Event, []byte, error) {
	if r.lent {
		r.release()
	}
	for {
		switch r.at {
		case inPreface:
			n := min(len(b), len(Preface)-int(r.have))
			if string(b[:n]) != Preface[r.have:int(r.have)+n] {
				return Event{}, b, r.die(ProtocolError, "the connection does not begin with HTTP/2's preface (RFC 9113 3.4)")
			}
			r.have += uint8(n)
			b = b[n:]
			if int(r.have) < len(Preface) {
				return Event{}, b, nil
			}
			r.have, r.at = 0, inHead

		case inHead:
			head := r.head[:]
			if r.have == 0 && len(b) >= HeadBytes {
				head, b = b[:HeadBytes], b[HeadBytes:]
			} else {
				n := copy(head[r.have:], b)
				r.have += uint8(n)
				b = b[n:]
				if r.have < HeadBytes {
					return Event{}, b, nil
				}
			}
			r.have = 0
			if err := r.begin(head); err != nil {
				return Event{}, b, err
			}

		case inPadLength:
			if len(b) == 0 {
				return Event{}, b, nil
			}
			r.pad = uint32(b[0])
			b = b[1:]
			r.wire++
			r.left--
			if r.at = inData; r.typ == typeHeaders {
				if r.at = inHold; r.flags&flagPriority != 0 {
					r.at = inPriority
				}
			}
			over := r.left
			if r.at == inPriority {
				over -= 5 // begin has seen to it that these are there
			}
			if r.pad > over {
				return Event{}, b, r.die(ProtocolError, "more padding than the frame is long (RFC 9113 6.1, 6.2)")
			}
			r.left -= r.pad

		case inPriority:
			n := min(len(b), 5-int(r.have))
			r.have += uint8(n)
			r.left -= uint32(n)
			b = b[n:]
			if r.have < 5 {
				return Event{}, b, nil
			}
			r.have, r.at = 0, inHold

		case inData:
			n := min(int(r.left), len(b))
			ev := Event{Kind: KindData, Stream: r.stream, First: r.first, Data: b[:n:n]}
			b = b[n:]
			r.left -= uint32(n)
			if r.left == 0 {
				m := min(int(r.pad), len(b))
				b = b[m:]
				r.pad -= uint32(m)
				n += m
			}
			over := r.left == 0 && r.pad == 0
			if n == 0 && !over {
				return Event{}, b, nil
			}
			ev.Wire = uint32(n) + uint32(r.wire)
			if r.first {
				ev.Length = r.length
			}
			r.first, r.wire = false, 0
			if over {
				ev.End = r.flags&flagEndStream != 0
				r.at = inHead
			}
			return ev, b, nil

		case inHold:
			n := int(r.left)
			var payload []byte
			if len(r.hold) == 0 && len(b) >= n+int(r.pad) && r.whole() {
				payload, b = b[:n:n], b[n+int(r.pad):]
			} else {
				n = min(n, len(b))
				r.hold = append(r.hold, b[:n]...)
				b = b[n:]
				if r.left -= uint32(n); r.left > 0 {
					return Event{}, b, nil
				}
				n = min(int(r.pad), len(b))
				b = b[n:]
				if r.pad -= uint32(n); r.pad > 0 {
					return Event{}, b, nil
				}
				payload = r.hold
				r.lent = r.whole()
			}
			r.left, r.pad, r.wire, r.at = 0, 0, 0, inHead
			if !r.whole() {
				continue // CONTINUATION follows
			}
			r.expected = 0
			ev, err := r.finish(payload)
			return ev, b, err

		default:
			return Event{}, b, r.fault
		}
	}
}

// release empties hold after the event that lent it.
func (r *Reader) release() {
	r.lent = false
	if cap(r.hold) > keepHold {
		r.hold = nil
	}
	r.hold = r.hold[:0]
}

// whole reports whether the payload that is being read is the last of its unit.
func (r *Reader) whole() bool { return r.expected == 0 || r.flags&flagEndHeaders != 0 }

// die makes the fault that ends the connection, and is told from now on.
func (r *Reader) die(code Code, reason string) error {
	r.at, r.hold, r.lent = inFault, nil, false
	r.fault = &ConnError{Code: code, Reason: reason}
	return r.fault
}

// begin takes in a frame's header and checks all that can be known from it.
func (r *Reader) begin(head []byte) error {
	r.length = uint32(head[0])<<16 | uint32(head[1])<<8 | uint32(head[2])
	r.typ, r.flags = head[3], head[4]
	r.stream = binary.BigEndian.Uint32(head[5:]) & MaxID
	r.left, r.pad, r.wire, r.at = r.length, 0, 0, inHold

	if r.length > r.maxFrame {
		return r.die(FrameSizeError, "a frame is longer than our SETTINGS_MAX_FRAME_SIZE (RFC 9113 4.2)")
	}
	if !r.settled {
		if r.typ != typeSettings || r.flags&flagAck != 0 {
			return r.die(ProtocolError, "the first frame is not SETTINGS (RFC 9113 3.4)")
		}
		r.settled = true
	}
	if r.expected != 0 && (r.typ != typeContinuation || r.stream != r.expected) {
		return r.die(ProtocolError, "a field block is interrupted by another frame (RFC 9113 4.3, 6.10)")
	}
	switch r.typ {
	case typeData, typeHeaders:
		return r.beginPayload()
	case typeContinuation:
		return r.beginContinuation()
	case typePush:
		return r.die(ProtocolError, "PUSH_PROMISE, which our SETTINGS forbid and clients can't send (RFC 9113 6.6, 8.4)")
	case typeReset, typeWindow, typePing, typeSettings, typeGoAway:
		return r.beginControl()
	case typePriority:
		if r.stream == 0 {
			return r.die(ProtocolError, "PRIORITY on stream 0 (RFC 9113 6.3)")
		}
	}
	r.left, r.pad = 0, r.length // ignored
	return nil
}

// beginPayload checks the header of DATA or HEADERS.
func (r *Reader) beginPayload() error {
	if r.stream == 0 {
		return r.die(ProtocolError, "DATA or HEADERS on stream 0 (RFC 9113 6.1, 6.2)")
	}
	need := uint32(0)
	if r.flags&flagPadded != 0 {
		need++
	}
	if r.typ == typeHeaders {
		if r.flags&flagPriority != 0 {
			need += 5
		}
		if r.length > r.maxBlock+maxHeadersExtra {
			return r.die(EnhanceYourCalm, "a field block is longer than we take")
		}
		r.ended = r.flags&flagEndStream != 0
		r.conts, r.expected = 0, r.stream
	}
	if r.length < need {
		return r.die(FrameSizeError, "a frame too short for what its flags announce (RFC 9113 4.2)")
	}
	switch {
	case r.flags&flagPadded != 0:
		r.at = inPadLength
	case r.typ == typeHeaders && r.flags&flagPriority != 0:
		r.at = inPriority
	case r.typ == typeData:
		r.at = inData
	}
	r.first = true
	return nil
}

// maxHeadersExtra is what a HEADERS frame may hold besides its part of the block.
const maxHeadersExtra = 1 + 5 + 255

func (r *Reader) beginContinuation() error {
	if r.expected == 0 {
		return r.die(ProtocolError, "CONTINUATION without HEADERS before it (RFC 9113 6.10)")
	}
	r.conts++
	if r.conts > maxContinued || uint32(len(r.hold))+r.length > r.maxBlock {
		return r.die(EnhanceYourCalm, "a field block is longer than we take")
	}
	return nil
}

// beginControl checks the header of a frame about the connection or a stream.
func (r *Reader) beginControl() error {
	ofStream := r.typ == typeReset
	if ofStream && r.stream == 0 {
		return r.die(ProtocolError, "RST_STREAM on stream 0 (RFC 9113 6.4)")
	}
	if !ofStream && r.typ != typeWindow && r.stream != 0 {
		return r.die(ProtocolError, "SETTINGS, PING or GOAWAY on a stream (RFC 9113 6.5, 6.7, 6.8)")
	}
	var fits bool
	switch r.typ {
	case typeReset, typeWindow:
		fits = r.length == 4
	case typePing:
		fits = r.length == 8
	case typeGoAway:
		fits = r.length >= 8
		r.left = min(r.length, 8+maxDebug)
		r.pad = r.length - r.left
	case typeSettings:
		if fits = r.length%6 == 0; r.flags&flagAck != 0 {
			fits = r.length == 0
		}
		if r.length > maxSettings {
			return r.die(EnhanceYourCalm, "SETTINGS with more than 680 parameters")
		}
	}
	if !fits {
		return r.die(FrameSizeError, "RST_STREAM, WINDOW_UPDATE, PING, SETTINGS or GOAWAY of a wrong size (RFC 9113 6.4-6.9)")
	}
	return nil
}

// finish makes the event of a frame whose payload, or block, is whole.
func (r *Reader) finish(payload []byte) (Event, error) {
	ev := Event{Stream: r.stream, Data: payload}
	switch r.typ {
	case typeHeaders, typeContinuation:
		ev.Kind, ev.End = KindHeaders, r.ended
	case typeReset:
		ev.Kind, ev.Data = KindReset, nil
		ev.Code = Code(binary.BigEndian.Uint32(payload))
	case typeSettings:
		if ev.Kind = KindSettings; r.flags&flagAck != 0 {
			ev.Kind = KindSettingsAck
		}
	case typePing:
		if ev.Kind = KindPing; r.flags&flagAck != 0 {
			ev.Kind = KindPingAck
		}
	case typeGoAway:
		ev.Kind = KindGoAway
		ev.Last = binary.BigEndian.Uint32(payload) & MaxID
		ev.Code = Code(binary.BigEndian.Uint32(payload[4:]))
		ev.Data = payload[8:]
	case typeWindow:
		ev.Kind, ev.Data = KindWindowUpdate, nil
		ev.Increment = binary.BigEndian.Uint32(payload) & maxWindow
		if ev.Increment == 0 && r.stream == 0 {
			return Event{}, r.die(ProtocolError, "WINDOW_UPDATE of 0 for the connection (RFC 9113 6.9)")
		}
		if ev.Increment == 0 {
			return Event{}, streamFault(r.stream, ProtocolError, "WINDOW_UPDATE of 0 (RFC 9113 6.9)")
		}
	case typePriority:
		ev.Kind, ev.Data = KindIgnored, nil
		if r.length != 5 {
			return Event{}, streamFault(r.stream, FrameSizeError, "PRIORITY of a wrong size (RFC 9113 6.3)")
		}
	default:
		ev.Kind, ev.Data = KindIgnored, nil
	}
	return ev, nil
}
