// Package h2 is HTTP/2 as bytes, as far as tunnels of CONNECT streams need it: RFC
// 9113 frames and field sections, without a socket, a clock or a goroutine.
//
// Data enters a Reader, in slices as they come off a connection, and leaves as
// Events: payload of DATA is passed on where it lies, in as many pieces as it came
// in; other frames are put together in one small bounded buffer. A Decoder turns
// the block of a HEADERS event into a Request or a Response. What is sent is
// appended to the caller's bytes: AppendSettings, PutDataHeader and others.
//
// What the protocol prescribes about ids, states, windows and settings is in plain
// values: Streams, Stream, Window, Inflow, Settings, Flood. Nothing here knows what
// a stream carries.
//
// Header compression: our SETTINGS forbid a dynamic table and our blocks never
// index, so that a tunnel has no state to fill. A peer may use a table of 4096
// bytes until it has read our SETTINGS; the Decoder follows it there.
//
// A fault of the peer is a *ConnError, after which the connection has to go, or a
// *StreamError, which is answered with RST_STREAM; which one it is says RFC 9113.
//
// Owns: its buffers. Slices in events, requests and responses are lent: valid until
// the next call on the same object and as long as the bytes that were passed in.
// Threads: every value belongs to one at a time. Reader, Decoder, Streams, Stream
// and Settings can be frozen at any byte and thawed elsewhere.
package h2

// Preface is what a client sends before its first frame.
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// HeadBytes is the size of the header in front of every frame.
const HeadBytes = 9

// A Role is the side of a connection that we are.
type Role uint8

// The roles.
const (
	Client Role = iota
	Server
)

// String names the role.
func (r Role) String() string {
	if r == Client {
		return "client"
	}
	return "server"
}

// The frame types of RFC 9113 section 6.
const (
	typeData         = 0x0
	typeHeaders      = 0x1
	typePriority     = 0x2
	typeReset        = 0x3
	typeSettings     = 0x4
	typePush         = 0x5
	typePing         = 0x6
	typeGoAway       = 0x7
	typeWindow       = 0x8
	typeContinuation = 0x9
)

const (
	flagEndStream  = 0x1 // DATA, HEADERS
	flagAck        = 0x1 // SETTINGS, PING
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

// MaxID is the highest id of a stream.
const MaxID = 1<<31 - 1

const (
	maxWindow    = 1<<31 - 1
	minFrameSize = 1 << 14
	maxFrameSize = 1<<24 - 1
)
