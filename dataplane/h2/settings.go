package h2

import "encoding/binary"

// The parameters of RFC 9113 section 6.5.2.
const (
	SettingHeaderTableSize  uint16 = 0x1
	SettingEnablePush       uint16 = 0x2
	SettingMaxStreams       uint16 = 0x3
	SettingInitialWindow    uint16 = 0x4
	SettingMaxFrameSize     uint16 = 0x5
	SettingMaxHeaderList    uint16 = 0x6
	settingConnectProtocol  uint16 = 0x8 // RFC 8441
	DefaultWindow                  = 1<<16 - 1
	DefaultMaxFrame                = minFrameSize
	defaultHeaderTableBytes        = 4096
)

// Settings are the peer's limits for what we send.
type Settings struct {
	Streams    uint32 // streams of ours that may be open at once
	Window     uint32 // at first, of each stream
	Frame      uint32 // longest payload of a frame
	HeaderList uint32 // uncompressed, 32 bytes added per field
}

// DefaultSettings hold until the peer's SETTINGS arrive.
func DefaultSettings() Settings {
	return Settings{Streams: 1<<32 - 1, Window: DefaultWindow, Frame: DefaultMaxFrame, HeaderList: 1<<32 - 1}
}

// Apply takes in the payload of a SETTINGS event from a peer of ours in our role. The
// caller shifts the windows of its streams by what Window has changed, then sends
// AppendSettingsAck. tableSize reports that the peer named a size of our encoder's
// table: the next block begins with AppendTableSize.
func (s *Settings) Apply(payload []byte, role Role) (tableSize bool, err error) {
	next := *s
	for ; len(payload) >= 6; payload = payload[6:] {
		value := binary.BigEndian.Uint32(payload[2:])
		switch binary.BigEndian.Uint16(payload) {
		case SettingHeaderTableSize:
			tableSize = true
		case SettingEnablePush:
			if value > 1 || value == 1 && role == Client {
				return false, connFault(ProtocolError, "SETTINGS_ENABLE_PUSH of a value that is not allowed (RFC 9113 6.5.2)")
			}
		case SettingMaxStreams:
			next.Streams = value
		case SettingInitialWindow:
			if value > maxWindow {
				return false, connFault(FlowControlError, "SETTINGS_INITIAL_WINDOW_SIZE above 2^31-1 (RFC 9113 6.5.2)")
			}
			next.Window = value
		case SettingMaxFrameSize:
			if value < minFrameSize || value > maxFrameSize {
				return false, connFault(ProtocolError, "SETTINGS_MAX_FRAME_SIZE outside 2^14 to 2^24-1 (RFC 9113 6.5.2)")
			}
			next.Frame = value
		case SettingMaxHeaderList:
			next.HeaderList = value
		case settingConnectProtocol:
			if value > 1 {
				return false, connFault(ProtocolError, "SETTINGS_ENABLE_CONNECT_PROTOCOL above 1 (RFC 8441 3)")
			}
		}
	}
	*s = next
	return tableSize, nil
}
