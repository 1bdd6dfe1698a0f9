package h2

import (
	"bytes"
	"fmt"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	testFrame = 1 << 20
	testBlock = 64 << 10
)

// A tale is what a Reader tells, with the pieces of a DATA frame put together and what
// is lent copied.
type tale struct {
	events []Event
	errs   []error
}

// feed lets r read b. False means that the Reader is dead.
func (o *tale) feed(r *Reader, b []byte) bool {
	for {
		ev, rest, err := r.Next(b)
		b = rest
		switch {
		case err != nil:
			o.errs = append(o.errs, err)
			if r.at == inFault {
				return false
			}
		case ev.Kind == KindNone:
			return true
		case ev.Kind == KindData && !ev.First && len(o.events) > 0:
			last := &o.events[len(o.events)-1]
			last.Data = append(last.Data, ev.Data...)
			last.Wire += ev.Wire
			last.End = ev.End
		default:
			ev.Data = bytes.Clone(ev.Data)
			o.events = append(o.events, ev)
		}
	}
}

// told is what a Reader tells of some pieces.
func told(r *Reader, pieces ...[]byte) ([]Event, []error) {
	var o tale
	for _, b := range pieces {
		if !o.feed(r, b) {
			break
		}
	}
	return o.events, o.errs
}

func (ev Event) line() string {
	return fmt.Sprintf("%v stream %d end %v code %v length %d wire %d increment %d last %d %q",
		ev.Kind, ev.Stream, ev.End, ev.Code, ev.Length, ev.Wire, ev.Increment, ev.Last, ev.Data)
}

// sample is one of each frame that a client may send, written by x/net's Framer.
func sample(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	b.WriteString(Preface)
	fr := http2.NewFramer(&b, nil)
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range []hpack.HeaderField{{Name: ":method", Value: "CONNECT"}, {Name: ":authority", Value: "192.0.2.1:80"}, {Name: "baggage", Value: "a=b"}} {
		if err := enc.WriteField(f); err != nil {
			t.Fatal(err)
		}
	}
	h := block.Bytes()
	for _, err := range []error{
		fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20}, http2.Setting{ID: 99, Val: 1}),
		fr.WriteSettingsAck(),
		fr.WriteWindowUpdate(0, 1<<20),
		fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: h, EndHeaders: true}),
		fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: h[:3], PadLength: 7, Priority: http2.PriorityParam{StreamDep: 1, Weight: 5}}),
		fr.WriteContinuation(3, false, h[3:5]),
		fr.WriteContinuation(3, true, h[5:]),
		fr.WriteData(1, false, []byte("hello")),
		fr.WriteDataPadded(1, false, []byte("padded"), make([]byte, 20)),
		fr.WriteDataPadded(1, false, nil, make([]byte, 3)),
		fr.WriteData(1, false, nil),
		fr.WritePriority(1, http2.PriorityParam{StreamDep: 3}),
		fr.WriteRawFrame(0x77, 0xff, 5, []byte("unknown")),
		fr.WriteData(1, true, []byte("bye")),
		fr.WritePing(false, [8]byte{1, 2, 3}),
		fr.WritePing(true, [8]byte{4, 5, 6}),
		fr.WriteRSTStream(3, http2.ErrCodeConnect),
		fr.WriteWindowUpdate(3, 7),
		fr.WriteGoAway(5, http2.ErrCodeNo, bytes.Repeat([]byte("why "), 100)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// However the input is cut, the same is told.
func TestReaderAtEverySplit(t *testing.T) {
	in := sample(t)
	r := NewReader(Server, testFrame, testBlock)
	want, errs := told(&r, in)
	if len(errs) > 0 || len(want) != 17 {
		t.Fatalf("%d events, %v", len(want), errs)
	}
	same := func(t *testing.T, how string, pieces ...[]byte) {
		r := NewReader(Server, testFrame, testBlock)
		got, errs := told(&r, pieces...)
		if len(errs) > 0 || len(got) != len(want) {
			t.Fatalf("%s: %d events, %v", how, len(got), errs)
		}
		for i := range got {
			if got[i].line() != want[i].line() {
				t.Fatalf("%s: event %d is\n%s, want\n%s", how, i, got[i].line(), want[i].line())
			}
		}
		if r.MidFrame() {
			t.Errorf("%s: in the middle of something", how)
		}
	}
	for i := range in {
		same(t, fmt.Sprintf("cut at %d", i), in[:i], in[i:])
	}
	for _, n := range []int{1, 2, 3, 5, 8, 9, 10, 64} {
		var pieces [][]byte
		for b := in; len(b) > 0; {
			m := min(n, len(b))
			pieces = append(pieces, b[:m])
			b = b[m:]
		}
		same(t, fmt.Sprintf("pieces of %d", n), pieces...)
	}
}
