package h2

import "encoding/binary"

// putHead writes a frame's header into the first 9 bytes of b.
func putHead(b []byte, length int, typ, flags byte, stream uint32) {
	_ = b[HeadBytes-1]
	b[0], b[1], b[2] = byte(length>>16), byte(length>>8), byte(length)
	b[3], b[4] = typ, flags
	binary.BigEndian.PutUint32(b[5:], stream)
}

func appendHead(b []byte, length int, typ, flags byte, stream uint32) []byte {
	at := len(b)
	b = append(b, make([]byte, HeadBytes)...)
	putHead(b[at:], length, typ, flags, stream)
	return b
}

// PutDataHeader writes the header of a DATA frame into the first 9 bytes of b,
// which lie in front of length bytes of payload. The caller keeps within the peer's
// frame size and both windows.
func PutDataHeader(b []byte, length int, stream uint32, end bool) {
	putHead(b, length, typeData, endFlag(end), stream)
}

// AppendData appends a DATA frame with its payload.
func AppendData(b []byte, stream uint32, payload []byte, end bool) []byte {
	return append(appendHead(b, len(payload), typeData, endFlag(end), stream), payload...)
}

func endFlag(end bool) byte {
	if end {
		return flagEndStream
	}
	return 0
}

// BeginHeaders leaves room for the header of a HEADERS frame. The block is appended
// behind it, then EndHeaders is called with len(b) of before.
func BeginHeaders(b []byte) []byte { return append(b, make([]byte, HeadBytes)...) }

// EndHeaders makes what was appended since BeginHeaders a HEADERS frame, and
// CONTINUATION frames behind it when the block is longer than the peer's frame size.
func EndHeaders(b []byte, at int, stream uint32, end bool, maxFrame uint32) []byte {
	size := int(maxFrame)
	block := len(b) - at - HeadBytes
	if block <= size {
		putHead(b[at:], block, typeHeaders, endFlag(end)|flagEndHeaders, stream)
		return b
	}
	rest := append([]byte(nil), b[at+HeadBytes+size:]...)
	b = b[:at+HeadBytes+size]
	putHead(b[at:], size, typeHeaders, endFlag(end), stream)
	for len(rest) > 0 {
		n, flags := min(len(rest), size), byte(0)
		if n == len(rest) {
			flags = flagEndHeaders
		}
		b = append(appendHead(b, n, typeContinuation, flags, stream), rest[:n]...)
		rest = rest[n:]
	}
	return b
}

// AppendReset appends RST_STREAM.
func AppendReset(b []byte, stream uint32, code Code) []byte {
	b = appendHead(b, 4, typeReset, 0, stream)
	return binary.BigEndian.AppendUint32(b, uint32(code))
}

// A Setting is one parameter of a SETTINGS frame.
type Setting struct {
	ID    uint16
	Value uint32
}

// AppendSettings appends SETTINGS.
func AppendSettings(b []byte, settings ...Setting) []byte {
	b = appendHead(b, 6*len(settings), typeSettings, 0, 0)
	for _, s := range settings {
		b = binary.BigEndian.AppendUint16(b, s.ID)
		b = binary.BigEndian.AppendUint32(b, s.Value)
	}
	return b
}

// AppendSettingsAck appends the answer to a SETTINGS frame.
func AppendSettingsAck(b []byte) []byte { return appendHead(b, 0, typeSettings, flagAck, 0) }

// AppendPing appends PING.
func AppendPing(b []byte, data [8]byte) []byte {
	return append(appendHead(b, 8, typePing, 0, 0), data[:]...)
}

// AppendPingAck appends the answer to a PING with data, the 8 bytes of its event.
func AppendPingAck(b []byte, data []byte) []byte {
	return append(appendHead(b, 8, typePing, flagAck, 0), data[:8]...)
}

// AppendGoAway appends GOAWAY: streams of the peer above last were not and will not
// be processed. Debug is for people who look at the wire.
func AppendGoAway(b []byte, last uint32, code Code, debug string) []byte {
	b = appendHead(b, 8+len(debug), typeGoAway, 0, 0)
	b = binary.BigEndian.AppendUint32(b, last)
	b = binary.BigEndian.AppendUint32(b, uint32(code))
	return append(b, debug...)
}

// AppendWindowUpdate appends WINDOW_UPDATE for a stream, or for the connection when
// stream is 0. The increment is 1 to 2^31-1.
func AppendWindowUpdate(b []byte, stream, increment uint32) []byte {
	b = appendHead(b, 4, typeWindow, 0, stream)
	return binary.BigEndian.AppendUint32(b, increment)
}
