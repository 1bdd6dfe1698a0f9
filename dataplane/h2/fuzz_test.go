package h2

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// FuzzReader feeds what a peer sends behind its preface in pieces whose size the fuzzer chooses, freezes
// and thaws between them, and compares with the input in one piece and with x/net's
// Framer.
func FuzzReader(f *testing.F) {
	f.Fuzz(func(t *testing.T, server bool, step uint16, in []byte) {
		role := Client
		if server {
			role = Server
			in = append([]byte(Preface), in...)
		}
		whole := NewReader(role, minFrameSize, minFrameSize)
		want, wantErrs := told(&whole, in)

		r := NewReader(role, minFrameSize, minFrameSize)
		var got tale
		for piece := range slices.Chunk(in, int(step)+1) {
			if !got.feed(&r, piece) {
				break
			}
			var again Reader
			if err := again.Thaw(r.Freeze(nil)); err != nil {
				t.Fatalf("can't be thawed: %v", err)
			}
			r = again
		}
		if len(got.events) != len(want) || len(got.errs) != len(wantErrs) {
			t.Fatalf("in pieces %d events, %v; in one %d, %v", len(got.events), got.errs, len(want), wantErrs)
		}
		for i, ev := range got.events {
			if ev.line() != want[i].line() {
				t.Fatalf("event %d in pieces\n%s, in one\n%s", i, ev.line(), want[i].line())
			}
		}
		for i, err := range got.errs {
			if err.Error() != wantErrs[i].Error() {
				t.Fatalf("in pieces %v, in one %v", err, wantErrs[i])
			}
		}
		compareFramer(t, role, in, want, wantErrs)
	})
}

// compareFramer checks that the Framer sees the same frames, and no fault in front of
// ours that we don't see. We see more faults: the Framer does not know roles, and is
// content with any first frame.
func compareFramer(t *testing.T, role Role, in []byte, events []Event, errs []error) {
	if role == Server {
		in = in[len(Preface):]
	}
	fr := http2.NewFramer(io.Discard, bytes.NewReader(in))
	fr.SetMaxReadFrameSize(minFrameSize)
	for i := 0; i < len(events); {
		frame, err := fr.ReadFrame()
		if se, ok := errors.AsType[http2.StreamError](err); ok {
			if len(errs) == 0 {
				t.Fatalf("x/net has %v, we have nothing against it", se)
			}
			continue
		}
		if err != nil {
			if !framerKnowsBetter(&events[i], errs) {
				t.Fatalf("we have %s, x/net has %v", events[i].line(), err)
			}
			return
		}
		if skip := compareFrame(t, frame, &events[i]); !skip {
			i++
		}
	}
}

// framerKnowsBetter reports whether x/net may fail where we have an event.
func framerKnowsBetter(ev *Event, errs []error) bool {
	for _, err := range errs {
		if e, ok := errors.AsType[*StreamError](err); ok && e.Code == FrameSizeError {
			return true // PRIORITY of a wrong size ends the connection there
		}
	}
	switch ev.Kind {
	case KindData:
		return ev.Wire < ev.Length // not whole yet; we pass on what there is
	case KindSettings:
		set := DefaultSettings()
		_, err := set.Apply(ev.Data, Server)
		return err != nil // we look at values later
	case KindIgnored:
		return true // it has an opinion about extensions that we don't know
	}
	return false
}

// compareFrame checks one frame; true when our event for it comes later, or never.
func compareFrame(t *testing.T, frame http2.Frame, ev *Event) (skip bool) {
	h := frame.Header()
	same := true
	switch f := frame.(type) {
	case *http2.DataFrame:
		same = ev.Kind == KindData && bytes.HasPrefix(f.Data(), ev.Data) && ev.Length == h.Length && (ev.Wire < h.Length || f.StreamEnded() == ev.End)
	case *http2.HeadersFrame:
		if !f.HeadersEnded() {
			return true
		}
		same = ev.Kind == KindHeaders && bytes.Equal(f.HeaderBlockFragment(), ev.Data) && f.StreamEnded() == ev.End
	case *http2.ContinuationFrame:
		if !f.HeadersEnded() {
			return true
		}
		same = ev.Kind == KindHeaders && bytes.HasSuffix(ev.Data, f.HeaderBlockFragment())
	case *http2.RSTStreamFrame:
		same = ev.Kind == KindReset && uint32(ev.Code) == uint32(f.ErrCode)
	case *http2.SettingsFrame:
		same = ev.Kind == KindSettings && !f.IsAck() && len(ev.Data) == f.NumSettings()*6 || ev.Kind == KindSettingsAck && f.IsAck()
	case *http2.PingFrame:
		same = (ev.Kind == KindPing && !f.IsAck() || ev.Kind == KindPingAck && f.IsAck()) && string(ev.Data) == string(f.Data[:])
	case *http2.GoAwayFrame:
		same = ev.Kind == KindGoAway && ev.Last == f.LastStreamID && uint32(ev.Code) == uint32(f.ErrCode) && bytes.HasPrefix(f.DebugData(), ev.Data)
	case *http2.WindowUpdateFrame:
		same = ev.Kind == KindWindowUpdate && ev.Increment == f.Increment
	default:
		same = ev.Kind == KindIgnored
	}
	if !same || ev.Stream != h.StreamID {
		t.Fatalf("we have %s, x/net has %v", ev.line(), frame)
	}
	return false
}

// twoSizes reports that a block begins with two changes of the table's size.
func twoSizes(b []byte) bool {
	if len(b) == 0 || b[0]&0xe0 != 0x20 {
		return false
	}
	_, rest, ok := readInt(b, 5)
	return ok && len(rest) > 0 && rest[0]&0xe0 == 0x20
}

// FuzzFields reads two blocks with one table, as x/net's decoder does.
func FuzzFields(f *testing.F) {
	f.Fuzz(func(t *testing.T, one, two []byte) {
		ours := newFields(defaultHeaderTableBytes)
		theirs := hpack.NewDecoder(defaultHeaderTableBytes, nil)
		for _, b := range [][]byte{one, two} {
			want, err := theirs.DecodeFull(b)
			got, ok, late := ours.read(b)
			if late {
				return
			}
			for i := range want {
				want[i].Sensitive = false // we forward nothing
			}
			if ok && err != nil && twoSizes(b) {
				return // RFC 7541 4.2 allows two; x/net does not while its table holds something
			}
			if ok != (err == nil) || ok && !slices.Equal(got, want) {
				t.Fatalf("%x: %q, %v; x/net has %q, %v", b, got, ok, want, err)
			}
			if !ok {
				return
			}
			var size uint32
			for _, e := range ours.table.entries {
				size += e.size()
			}
			if size != ours.table.size || size > ours.table.max {
				t.Fatalf("a table of %d bytes says %d; limit %d", size, ours.table.size, ours.table.max)
			}
		}
	})
}

// FuzzRequest reads any block as a request: what is taken must hold what the caller
// relies on, and must be taken again when it is written by us.
func FuzzRequest(f *testing.F) {
	f.Fuzz(func(t *testing.T, in []byte) {
		d := NewDecoder(8 << 10)
		var r Request
		if err := d.Request(headers(in), &r); err != nil || r.TooLarge {
			return
		}
		if !r.Connect() {
			if len(r.Method) == 0 {
				t.Fatal("a request without a method is taken")
			}
			return
		}
		if len(r.Authority) == 0 || !validValue(r.Authority) {
			t.Fatalf("authority %q", r.Authority)
		}
		b := AppendConnect(AppendTableSize(nil), r.Authority)
		b = AppendField(b, "baggage", r.Baggage)
		b = AppendFieldHuffman(b, "forwarded", string(r.Forwarded))
		b = AppendField(b, "traceparent", r.TraceParent)
		d2 := NewDecoder(16 << 10)
		d2.SettingsAcked()
		var again Request
		if err := d2.Request(headers(b), &again); err != nil || !bytes.Equal(again.Authority, r.Authority) ||
			!bytes.Equal(again.Baggage, r.Baggage) || !bytes.Equal(again.Forwarded, r.Forwarded) || !bytes.Equal(again.TraceParent, r.TraceParent) {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
	})
}

// FuzzState thaws any bytes: what is taken freezes to the same state and survives
// whatever follows.
func FuzzState(f *testing.F) {
	f.Fuzz(func(t *testing.T, state, in []byte) {
		var r Reader
		if r.Thaw(state) == nil {
			sameAgain(t, r.Freeze(nil), new(Reader))
			new(tale).feed(&r, in)
			if len(r.hold) > int(r.maxBlock)+maxHeadersExtra+maxSettings {
				t.Fatalf("holds %d bytes", len(r.hold))
			}
		}
		var d Decoder
		if d.Thaw(state) == nil {
			sameAgain(t, d.Freeze(nil), new(Decoder))
			if err := d.Skip(headers(in)); err != nil && fault(err) != "connection: COMPRESSION_ERROR" {
				t.Fatal(err)
			}
		}
		var s Streams
		if s.Thaw(state) == nil {
			sameAgain(t, s.Freeze(nil), new(Streams))
			for _, c := range in {
				_, _ = s.Admit(&Event{Kind: Kind(c%4) + KindData, Stream: uint32(c) + 1})
			}
		}
		var st Stream
		if st.Thaw(state) == nil {
			sameAgain(t, st.Freeze(nil), new(Stream))
		}
		var set Settings
		if set.Thaw(state) == nil {
			sameAgain(t, set.Freeze(nil), new(Settings))
		}
	})
}

// sameAgain checks that a frozen state thaws to what freezes to the same bytes.
func sameAgain(t *testing.T, frozen []byte, to interface {
	Thaw([]byte) error
	Freeze([]byte) []byte
}) {
	t.Helper()
	if err := to.Thaw(frozen); err != nil || !bytes.Equal(to.Freeze(nil), frozen) {
		t.Fatalf("%T: %x became %x, %v", to, frozen, to.Freeze(nil), err)
	}
}
