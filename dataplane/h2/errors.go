package h2

import "fmt"

// A Code says in RST_STREAM and GOAWAY why.
type Code uint32

// The codes of RFC 9113 section 7.
const (
	NoError            Code = 0x0
	ProtocolError      Code = 0x1
	InternalError      Code = 0x2
	FlowControlError   Code = 0x3
	SettingsTimeout    Code = 0x4
	StreamClosed       Code = 0x5
	FrameSizeError     Code = 0x6
	RefusedStream      Code = 0x7
	Cancel             Code = 0x8
	CompressionError   Code = 0x9
	ConnectError       Code = 0xa
	EnhanceYourCalm    Code = 0xb
	InadequateSecurity Code = 0xc
	HTTP11Required     Code = 0xd
)

// String is the name in RFC 9113; an unknown code is shown as a number.
func (c Code) String() string {
	switch c {
	case NoError:
		return "NO_ERROR"
	case ProtocolError:
		return "PROTOCOL_ERROR"
	case InternalError:
		return "INTERNAL_ERROR"
	case FlowControlError:
		return "FLOW_CONTROL_ERROR"
	case SettingsTimeout:
		return "SETTINGS_TIMEOUT"
	case StreamClosed:
		return "STREAM_CLOSED"
	case FrameSizeError:
		return "FRAME_SIZE_ERROR"
	case RefusedStream:
		return "REFUSED_STREAM"
	case Cancel:
		return "CANCEL"
	case CompressionError:
		return "COMPRESSION_ERROR"
	case ConnectError:
		return "CONNECT_ERROR"
	case EnhanceYourCalm:
		return "ENHANCE_YOUR_CALM"
	case InadequateSecurity:
		return "INADEQUATE_SECURITY"
	case HTTP11Required:
		return "HTTP_1_1_REQUIRED"
	}
	return fmt.Sprintf("code %#x", uint32(c))
}

// A ConnError is a fault of the peer that ends the connection: send GOAWAY with
// Code, then close.
type ConnError struct {
	Code   Code
	Reason string // what the peer did
}

// Error says what the peer did.
func (e *ConnError) Error() string { return fmt.Sprintf("HTTP/2 %v: %s", e.Code, e.Reason) }

// A StreamError is a fault of the peer that ends one stream: send RST_STREAM with
// Code. The connection goes on.
type StreamError struct {
	Stream uint32
	Code   Code
	Reason string // what the peer did
}

// Error says what the peer did.
func (e *StreamError) Error() string {
	return fmt.Sprintf("HTTP/2 stream %d: %v: %s", e.Stream, e.Code, e.Reason)
}

func connFault(code Code, reason string) *ConnError { return &ConnError{Code: code, Reason: reason} }

func streamFault(id uint32, code Code, reason string) *StreamError {
	return &StreamError{Stream: id, Code: code, Reason: reason}
}
