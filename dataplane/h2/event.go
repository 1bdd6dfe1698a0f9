package h2

// A Kind says what an Event tells.
type Kind uint8

// The kinds.
const (
	KindNone         Kind = iota // the input is used up
	KindData                     // a piece of a DATA frame
	KindHeaders                  // a whole field block; give it to a Decoder, always
	KindReset                    // RST_STREAM
	KindSettings                 // SETTINGS to be applied and acknowledged
	KindSettingsAck              // the peer has applied ours
	KindPing                     // PING to be answered
	KindPingAck                  // the answer to a PING of ours
	KindGoAway                   // the peer takes no streams above Last
	KindWindowUpdate             // more credit, for the connection when Stream is 0
	KindIgnored                  // PRIORITY or an unknown frame, skipped; count it
)

// String names the kind as RFC 9113 does.
func (k Kind) String() string {
	switch k {
	case KindNone:
		return "none"
	case KindData:
		return "DATA"
	case KindHeaders:
		return "HEADERS"
	case KindReset:
		return "RST_STREAM"
	case KindSettings:
		return "SETTINGS"
	case KindSettingsAck:
		return "SETTINGS ack"
	case KindPing:
		return "PING"
	case KindPingAck:
		return "PING ack"
	case KindGoAway:
		return "GOAWAY"
	case KindWindowUpdate:
		return "WINDOW_UPDATE"
	case KindIgnored:
		return "ignored"
	}
	return "unknown"
}

// An Event is a frame, or a piece of a DATA frame, that a Reader has read.
type Event struct {
	Kind   Kind
	First  bool   // DATA: the first event of its frame
	End    bool   // DATA, HEADERS: the peer ends its side of the stream with this event
	Stream uint32 // 0 is the connection
	Code   Code   // RST_STREAM, GOAWAY

	// Length counts for flow control: the payload of the whole DATA frame, padding
	// included, in its first event; 0 in the others.
	Length uint32
	// Wire is how many of these bytes this event took from the input: the sum over
	// the events of a frame is its Length. What is in Wire and not in Data is padding.
	Wire uint32

	Increment uint32 // WINDOW_UPDATE
	Last      uint32 // GOAWAY

	// Data is lent: the piece of DATA, perhaps empty; the block of HEADERS; the
	// payload of SETTINGS and PING; the beginning of GOAWAY's debug data.
	Data []byte
}
