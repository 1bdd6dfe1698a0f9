package h2

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// frame writes any frame, also one that nobody may send.
func frame(typ, flags byte, stream uint32, payload ...byte) []byte {
	return append(appendHead(nil, len(payload), typ, flags, stream), payload...)
}

func zeros(n int) []byte { return make([]byte, n) }

// hello is what each side sends first.
var hello = map[Role][]byte{
	Server: append([]byte(Preface), AppendSettings(nil)...), // what a server reads
	Client: AppendSettings(nil),
}

// verdict describes what a Reader made of its input: the kinds of events behind the
// first SETTINGS, and the faults.
func verdict(role Role, in []byte) string {
	r := NewReader(role, 1<<15, 1<<15)
	events, errs := told(&r, in)
	var words []string
	for i, ev := range events {
		if i > 0 || ev.Kind != KindSettings {
			words = append(words, ev.Kind.String())
		}
	}
	for _, err := range errs {
		words = append(words, fault(err))
	}
	return strings.Join(words, ", ")
}

// fault is a fault in short: where it ends, and the code.
func fault(err error) string {
	if e, ok := errors.AsType[*ConnError](err); ok {
		return "connection: " + e.Code.String()
	}
	if e, ok := errors.AsType[*StreamError](err); ok {
		return fmt.Sprintf("stream %d: %v", e.Stream, e.Code)
	}
	if err != nil {
		return err.Error()
	}
	return "fine"
}

// Frames as such: what must be ignored, and what ends a stream or the connection.
func TestRFC9113Frames(t *testing.T) {
	ping := AppendPing(nil, [8]byte{})
	for _, tt := range []struct {
		name string // section, and what it demands
		role Role
		raw  bool // in is all that comes; else hello comes first
		in   []byte
		want string
	}{
		{"3.4 preface must be right", Server, true, []byte("GET / HTTP/1.1\r\n"), "connection: PROTOCOL_ERROR"},
		{"3.4 preface may be all that came", Server, true, []byte(Preface), ""},
		{"3.4 SETTINGS must follow the preface", Server, true, append([]byte(Preface), ping...), "connection: PROTOCOL_ERROR"},
		{"3.4 SETTINGS must be the server's first", Client, true, ping, "connection: PROTOCOL_ERROR"},
		{"3.4 an acknowledgement is no preface", Client, true, AppendSettingsAck(nil), "connection: PROTOCOL_ERROR"},

		{"4.1 unknown types are ignored", Server, false, append(frame(0x42, 0xff, 7, zeros(99)...), ping...), "ignored, PING"},
		{"4.1 unknown types are ignored on stream 0", Client, false, append(frame(0xff, 0, 0), ping...), "ignored, PING"},
		{"4.1 unused flags are ignored", Server, false, frame(typePing, 0xfe, 0, zeros(8)...), "PING"},
		{"4.1 the reserved bit is ignored", Server, false, frame(typePing, 0, 1<<31, zeros(8)...), "PING"},
		{"4.2 frames of 2^14 bytes are taken", Server, false, frame(typeData, 0, 1, zeros(1<<14)...), "DATA"},
		{"4.2 frames as long as our SETTINGS say are taken", Server, false, frame(typeData, 0, 1, zeros(1<<15)...), "DATA"},
		{"4.2 longer ones are not", Server, false, frame(typeData, 0, 1, zeros(1<<15+1)...), "connection: FRAME_SIZE_ERROR"},
		{"4.2 nor of unknown types", Server, false, frame(0x42, 0, 1, zeros(1<<15+1)...), "connection: FRAME_SIZE_ERROR"},
		{"4.2 too short for padding", Server, false, frame(typeData, flagPadded, 1), "connection: FRAME_SIZE_ERROR"},
		{"4.2 too short for priority", Server, false, frame(typeHeaders, flagPriority|flagEndHeaders, 1, zeros(4)...), "connection: FRAME_SIZE_ERROR"},
		{"4.2 too short for padding and priority", Server, false, frame(typeHeaders, flagPadded|flagPriority|flagEndHeaders, 1, zeros(5)...), "connection: FRAME_SIZE_ERROR"},
		{"4.3 a block is not interrupted by another type", Server, false, append(frame(typeHeaders, 0, 1, 0x82), ping...), "connection: PROTOCOL_ERROR"},
		{"4.3 nor by DATA of its stream", Server, false, append(frame(typeHeaders, 0, 1, 0x82), frame(typeData, 0, 1)...), "connection: PROTOCOL_ERROR"},
		{"4.3 nor by HEADERS of its stream", Server, false, append(frame(typeHeaders, 0, 1, 0x82), frame(typeHeaders, flagEndHeaders, 1)...), "connection: PROTOCOL_ERROR"},
		{"5.5 nor by an unknown type", Server, false, append(frame(typeHeaders, 0, 1, 0x82), frame(0x42, 0, 1)...), "connection: PROTOCOL_ERROR"},

		{"6.1 DATA has a stream", Server, false, frame(typeData, 0, 0, 1), "connection: PROTOCOL_ERROR"},
		{"6.1 padding may be all but its length", Server, false, frame(typeData, flagPadded, 1, 2, 0, 0), "DATA"},
		{"6.1 padding is shorter than the payload", Server, false, frame(typeData, flagPadded, 1, 3, 0, 0), "connection: PROTOCOL_ERROR"},
		{"6.2 HEADERS has a stream", Server, false, frame(typeHeaders, flagEndHeaders, 0, 0x82), "connection: PROTOCOL_ERROR"},
		{"6.2 padding fits behind the block", Server, false, frame(typeHeaders, flagPadded|flagEndHeaders, 1, 2, 0x82, 0, 0), "HEADERS"},
		{"6.2 padding longer than the frame", Server, false, frame(typeHeaders, flagPadded|flagEndHeaders, 1, 4, 0x82, 0, 0), "connection: PROTOCOL_ERROR"},
		{"6.2 padding that eats the priority", Server, false, frame(typeHeaders, flagPadded|flagPriority|flagEndHeaders, 1, 2, 0, 0, 0, 0, 0, 0x82), "connection: PROTOCOL_ERROR"},
		{"6.3 PRIORITY is ignored", Server, false, frame(typePriority, 0, 1, zeros(5)...), "ignored"},
		{"6.3 PRIORITY has a stream", Server, false, frame(typePriority, 0, 0, zeros(5)...), "connection: PROTOCOL_ERROR"},
		{"6.3 PRIORITY has 5 bytes", Server, false, frame(typePriority, 0, 3, zeros(6)...), "stream 3: FRAME_SIZE_ERROR"},
		{"6.4 RST_STREAM has a stream", Server, false, frame(typeReset, 0, 0, zeros(4)...), "connection: PROTOCOL_ERROR"},
		{"6.4 RST_STREAM has 4 bytes", Server, false, frame(typeReset, 0, 1, zeros(5)...), "connection: FRAME_SIZE_ERROR"},
		{"6.5 SETTINGS has no stream", Server, false, frame(typeSettings, 0, 1), "connection: PROTOCOL_ERROR"},
		{"6.5 SETTINGS has a multiple of 6 bytes", Server, false, frame(typeSettings, 0, 0, zeros(7)...), "connection: FRAME_SIZE_ERROR"},
		{"6.5 an acknowledgement is empty", Server, false, frame(typeSettings, flagAck, 0, zeros(6)...), "connection: FRAME_SIZE_ERROR"},
		{"6.6 clients are not pushed to, our SETTINGS say", Client, false, frame(typePush, flagEndHeaders, 1, 0, 0, 0, 2, 0x82), "connection: PROTOCOL_ERROR"},
		{"8.4 clients don't push", Server, false, frame(typePush, flagEndHeaders, 1, 0, 0, 0, 2, 0x82), "connection: PROTOCOL_ERROR"},
		{"6.7 PING has no stream", Server, false, frame(typePing, 0, 1, zeros(8)...), "connection: PROTOCOL_ERROR"},
		{"6.7 PING has 8 bytes", Server, false, frame(typePing, 0, 0, zeros(6)...), "connection: FRAME_SIZE_ERROR"},
		{"6.7 an answer is told apart", Server, false, AppendPingAck(nil, zeros(8)), "PING ack"},
		{"6.8 GOAWAY has no stream", Client, false, frame(typeGoAway, 0, 1, zeros(8)...), "connection: PROTOCOL_ERROR"},
		{"6.8 GOAWAY has 8 bytes", Client, false, frame(typeGoAway, 0, 0, zeros(7)...), "connection: FRAME_SIZE_ERROR"},
		{"6.8 GOAWAY may say more", Client, false, frame(typeGoAway, 0, 0, zeros(9000)...), "GOAWAY"},
		{"6.9 WINDOW_UPDATE has 4 bytes", Server, false, frame(typeWindow, 0, 0, zeros(3)...), "connection: FRAME_SIZE_ERROR"},
		{"6.9 an increment of 0 on a stream", Server, false, append(frame(typeWindow, 0, 5, zeros(4)...), ping...), "PING, stream 5: PROTOCOL_ERROR"},
		{"6.9 an increment of 0 on the connection", Server, false, frame(typeWindow, 0, 0, zeros(4)...), "connection: PROTOCOL_ERROR"},
		{"6.9 the reserved bit is ignored", Server, false, frame(typeWindow, 0, 0, 0x80, 0, 0, 1), "WINDOW_UPDATE"},
		{"6.10 CONTINUATION follows HEADERS", Server, false, frame(typeContinuation, flagEndHeaders, 1, 0x82), "connection: PROTOCOL_ERROR"},
		{"6.10 CONTINUATION follows no ended block", Server, false, append(frame(typeHeaders, flagEndHeaders, 1, 0x82), frame(typeContinuation, flagEndHeaders, 1)...), "HEADERS, connection: PROTOCOL_ERROR"},
		{"6.10 CONTINUATION has the same stream", Server, false, append(frame(typeHeaders, 0, 1, 0x82), frame(typeContinuation, flagEndHeaders, 3)...), "connection: PROTOCOL_ERROR"},
		{"6.10 CONTINUATION on stream 0", Server, false, append(frame(typeHeaders, 0, 1, 0x82), frame(typeContinuation, flagEndHeaders, 0)...), "connection: PROTOCOL_ERROR"},
		{"6.10 CONTINUATION may come often", Server, false, slices.Concat(frame(typeHeaders, 0, 1, 0x82), frame(typeContinuation, 0, 1), frame(typeContinuation, 0, 1), frame(typeContinuation, flagEndHeaders, 1)), "HEADERS"},
		{"7 unknown error codes mean nothing", Client, false, slices.Concat(AppendReset(nil, 1, 0xdead), AppendGoAway(nil, 1, 0xdead, "")), "RST_STREAM, GOAWAY"},

		{"10.5 a block is bounded", Server, false, append(frame(typeHeaders, 0, 1, zeros(1<<15)...), frame(typeContinuation, flagEndHeaders, 1, 0)...), "connection: ENHANCE_YOUR_CALM"},
		{"10.5 empty CONTINUATION frames are bounded", Server, false, append(frame(typeHeaders, 0, 1), bytes.Repeat(frame(typeContinuation, 0, 1), maxContinued+1)...), "connection: ENHANCE_YOUR_CALM"},
		{"10.5 SETTINGS are bounded", Server, false, frame(typeSettings, 0, 0, zeros(6000)...), "connection: ENHANCE_YOUR_CALM"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := tt.in
			if !tt.raw {
				in = append(slices.Clone(hello[tt.role]), in...)
			}
			if got := verdict(tt.role, in); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			whole := NewReader(tt.role, 1<<15, 1<<15)
			bytewise := NewReader(tt.role, 1<<15, 1<<15)
			_, want := told(&whole, in)
			_, got := told(&bytewise, slices.Collect(slices.Chunk(in, 1))...)
			if len(got) != len(want) || len(got) > 0 && got[0].Error() != want[0].Error() {
				t.Errorf("byte by byte %v, want %v", got, want)
			}
		})
	}
}

// After the fault that ends a connection nothing is read any more.
func TestReaderStaysDead(t *testing.T) {
	r := NewReader(Client, 1<<14, 1<<14)
	if _, _, err := r.Next(AppendPing(nil, [8]byte{})); err == nil {
		t.Fatal("PING first is taken")
	}
	in := AppendSettings(nil)
	_, rest, err := r.Next(in)
	if fault(err) != "connection: PROTOCOL_ERROR" || len(rest) != len(in) {
		t.Errorf("then %v, %d of %d bytes left", err, len(rest), len(in))
	}
}

// A DATA frame longer than anything we hold is passed on piece by piece, and its
// padding is counted where it lies.
func TestDataInPieces(t *testing.T) {
	r := NewReader(Client, 1<<20, 1<<14)
	told(&r, hello[Client])
	payload := bytes.Repeat([]byte("0123456789abcdef"), 1<<12)
	in := append(appendHead(nil, len(payload)+11, typeData, flagPadded|flagEndStream, 1), 10)
	in = append(append(in, payload...), zeros(10)...)
	var got []byte
	var wire, events, ends uint32
	for piece := range slices.Chunk(in, 1000) {
		for {
			ev, rest, err := r.Next(piece)
			if err != nil {
				t.Fatal(err)
			}
			piece = rest
			if ev.Kind == KindNone {
				break
			}
			if ev.First != (events == 0) || (ev.Length != 0) != ev.First {
				t.Fatalf("event %d: first %v, length %d", events, ev.First, ev.Length)
			}
			if ev.First && ev.Length != uint32(len(payload)+11) {
				t.Errorf("length %d, want %d", ev.Length, len(payload)+11)
			}
			if ev.End {
				ends++
			}
			got = append(got, ev.Data...)
			wire += ev.Wire
			events++
		}
	}
	if !bytes.Equal(got, payload) || wire != uint32(len(payload)+11) || ends != 1 || cap(r.hold) != 0 {
		t.Errorf("%d bytes, %d on the wire, %d ends, %d held; want %d, %d, 1, 0", len(got), wire, ends, cap(r.hold), len(payload), len(payload)+11)
	}
}
