package h2

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"
)

// block encodes "name: value" lines as x/net does, with no table.
func block(t testing.TB, lines ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	enc.SetMaxDynamicTableSize(0)
	for _, line := range lines {
		name, value, _ := strings.Cut(line[1:], ": ")
		if err := enc.WriteField(hpack.HeaderField{Name: line[:1] + name, Value: value}); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func headers(b []byte) *Event { return &Event{Kind: KindHeaders, Stream: 7, Data: b} }

const (
	connect = ":method: CONNECT"
	target  = ":authority: 192.0.2.1:80"
)

// Field sections of requests: what is malformed ends the stream, and no more.
func TestRFC9113Requests(t *testing.T) {
	const (
		fine      = "fine"
		malformed = "stream 7: PROTOCOL_ERROR"
	)
	for _, tt := range []struct {
		name  string // section, and what it demands
		lines []string
		want  string
	}{
		{"8.5 CONNECT has a method and an authority", []string{connect, target}, fine},
		{"8.3 in any order", []string{target, connect}, fine},
		{"8.2 unknown fields are ignored", []string{connect, target, "x-anything: at all", "user-agent: nobody"}, fine},
		{"8.5 CONNECT has no scheme", []string{connect, ":scheme: https", target}, malformed},
		{"8.5 CONNECT has no path", []string{connect, target, ":path: /"}, malformed},
		{"8.5 CONNECT has neither scheme nor path", []string{connect, ":scheme: https", ":path: /", target}, malformed},
		{"8.5 CONNECT has no empty path", []string{connect, target, ":path: "}, malformed},
		{"8.5 extended CONNECT is not offered", []string{connect, target, ":protocol: websocket"}, malformed},
		{"8.5 extended CONNECT, whole", []string{connect, target, ":scheme: https", ":path: /", ":protocol: websocket"}, malformed},
		{"8.5 CONNECT without an authority", []string{connect}, malformed},
		{"8.5 CONNECT with an empty authority", []string{connect, ":authority: "}, malformed},
		{"8.3.1 Host is no authority", []string{connect, "host: 192.0.2.1:80"}, malformed},
		{"8.3.1 Host is not looked at", []string{connect, target, "host: 198.51.100.1:80"}, fine},
		{"8.3.1 a request has a method", []string{target, ":scheme: https", ":path: /"}, malformed},
		{"8.3.1 a method is not empty", []string{":method: ", target}, malformed},
		{"8.3.1 GET has a scheme and a path", []string{":method: GET", target, ":scheme: https", ":path: /"}, fine},
		{"8.3.1 GET without a scheme", []string{":method: GET", target, ":path: /"}, malformed},
		{"8.3.1 GET without a path", []string{":method: GET", target, ":scheme: https"}, malformed},
		{"8.3.1 GET with an empty path", []string{":method: GET", target, ":scheme: https", ":path: "}, malformed},
		{"8.3 no field is there twice: method", []string{connect, connect, target}, malformed},
		{"8.3 no field is there twice: authority", []string{connect, target, target}, malformed},
		{"8.3 no field of responses", []string{connect, target, ":status: 200"}, malformed},
		{"8.3 no undefined pseudo-header field", []string{connect, target, ":tunnel: yes"}, malformed},
		{"8.3 no pseudo-header field behind others", []string{connect, "baggage: a=b", target}, malformed},
		{"8.2.1 no upper case in names", []string{connect, target, "Baggage: a=b"}, malformed},
		{"8.2.1 no blank in names", []string{connect, target, "bag gage: a=b"}, malformed},
		{"8.2.1 no control character in names", []string{connect, target, "\x01: x"}, malformed},
		{"8.2.1 no DEL in names", []string{connect, target, "x\x7f: x"}, malformed},
		{"8.2.1 no bytes above ASCII in names", []string{connect, target, "x\xc3: x"}, malformed},
		{"8.2.1 no colon within names", []string{connect, target, "a:b: x"}, malformed},
		{"8.2.1 no NUL in values", []string{connect, target, "x: a\x00b"}, malformed},
		{"8.2.1 no CR in values", []string{connect, target, "x: a\rb"}, malformed},
		{"8.2.1 no LF in values", []string{connect, target, "x: a\nb"}, malformed},
		{"8.2.1 no LF in the authority", []string{connect, ":authority: a:1\nx"}, malformed},
		{"8.2.1 no blank in front of a value", []string{connect, target, "x:  a"}, malformed},
		{"8.2.1 no tab behind a value", []string{connect, target, "x: a\t"}, malformed},
		{"8.2.1 blanks within values", []string{connect, target, "x: a \t b"}, fine},
		{"8.2.1 bytes above ASCII in values", []string{connect, target, "x: \xc3\xbc"}, fine},
		{"8.2.2 no Connection", []string{connect, target, "connection: close"}, malformed},
		{"8.2.2 no Proxy-Connection", []string{connect, target, "proxy-connection: close"}, malformed},
		{"8.2.2 no Keep-Alive", []string{connect, target, "keep-alive: 5"}, malformed},
		{"8.2.2 no Transfer-Encoding", []string{connect, target, "transfer-encoding: chunked"}, malformed},
		{"8.2.2 no Upgrade", []string{connect, target, "upgrade: h2c"}, malformed},
		{"8.2.2 TE is trailers", []string{connect, target, "te: trailers"}, fine},
		{"8.2.2 TE is nothing else", []string{connect, target, "te: gzip"}, malformed},
		{"8.5 content-length counts for nothing", []string{connect, target, "content-length: 5"}, fine},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := NewDecoder(1 << 16)
			var r Request
			if got := fault(d.Request(headers(block(t, tt.lines...)), &r)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if err := d.Request(headers(block(t, connect, target)), &r); err != nil || !r.Connect() {
				t.Errorf("the next request: %v", err)
			}
		})
	}
}

func TestRFC9113Responses(t *testing.T) {
	const malformed = "stream 7: PROTOCOL_ERROR"
	for _, tt := range []struct {
		name  string
		lines []string
		want  string
		code  int
		final bool
	}{
		{"8.3.2 a response has a status", []string{":status: 200"}, "fine", 200, true},
		{"8.3.2 any status", []string{":status: 503", "server: x"}, "fine", 503, true},
		{"8.3.2 interim ones too", []string{":status: 103", "link: x"}, "fine", 103, false},
		{"8.3.2 a response without a status", []string{"server: x"}, malformed, 0, false},
		{"8.3.2 a status has three digits", []string{":status: 20"}, malformed, 0, false},
		{"8.3.2 a status is a number", []string{":status: 2xx"}, malformed, 0, false},
		{"8.3.2 a status does not begin with 0", []string{":status: 020"}, malformed, 0, false},
		{"8.6 there is no status 101", []string{":status: 101"}, malformed, 0, false},
		{"8.3 no field of requests", []string{":status: 200", ":method: GET"}, malformed, 0, false},
		{"8.3 no status twice", []string{":status: 200", ":status: 200"}, malformed, 0, false},
		{"8.3 no status behind other fields", []string{"server: x", ":status: 200"}, malformed, 0, false},
		{"8.2.2 no Transfer-Encoding", []string{":status: 200", "transfer-encoding: chunked"}, malformed, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := NewDecoder(1 << 16)
			var r Response
			if got := fault(d.Response(headers(block(t, tt.lines...)), &r)); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if r.Status != tt.code || r.Final() != tt.final {
				t.Errorf("status %d, final %v; want %d, %v", r.Status, r.Final(), tt.code, tt.final)
			}
		})
	}
}

// The fields that we want, in one piece or in several, plain and with Huffman coding.
func TestRequestFields(t *testing.T) {
	d := NewDecoder(1 << 16)
	var r Request
	ev := headers(block(t, connect, target,
		"baggage: k8s.cluster.name=one", "forwarded: for=\"192.0.2.9:1\";host=a", "baggage: service.name=b",
		"traceparent: 00-1", "forwarded: second", "traceparent: second", "x-forwarded-network: ", "baggage: ,c=d"))
	if err := d.Request(ev, &r); err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%s|%s|%s|%s|%s|%v", r.Authority, r.Forwarded, r.TraceParent, r.Baggage, r.Network, r.Network != nil)
	want := `192.0.2.1:80|for="192.0.2.9:1";host=a|00-1|k8s.cluster.name=one,service.name=b,,c=d||true`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if err := d.Request(headers(block(t, connect, target)), &r); err != nil || r.Forwarded != nil || r.TraceParent != nil || r.Network != nil || r.Baggage != nil {
		t.Errorf("the next request has the fields of the one before: %+v, %v", r, err)
	}
}

// A section above the limit is told as such, whatever else is wrong with it, and the
// next one is read.
func TestTooLarge(t *testing.T) {
	const limit = 1000
	for _, n := range []int{1, 2, 900} {
		lines := []string{connect, target, "x: " + strings.Repeat("a", 900/n)}
		for range n {
			lines = append(lines, "x: "+strings.Repeat("b", 900/n))
		}
		d := NewDecoder(limit)
		var r Request
		if err := d.Request(headers(block(t, lines...)), &r); err != nil || !r.TooLarge {
			t.Errorf("%d fields: too large %v, %v", n, r.TooLarge, err)
		}
		if err := d.Request(headers(block(t, connect, target)), &r); err != nil || r.TooLarge {
			t.Errorf("%d fields: the next one: too large %v, %v", n, r.TooLarge, err)
		}
	}
	d := NewDecoder(limit)
	var r Response
	if err := d.Response(headers(block(t, ":status: 200", "x: "+strings.Repeat("a", 1000))), &r); err != nil || !r.TooLarge || !r.Final() {
		t.Errorf("response: %+v, %v", r, err)
	}
	edge := NewDecoder(7 + 7 + 32) // :method, CONNECT, and what each field counts besides
	var q Request
	err := edge.Request(headers(block(t, connect)), &q)
	if q.TooLarge || fault(err) != "stream 7: PROTOCOL_ERROR" {
		t.Errorf("a section of just the limit: too large %v, %v", q.TooLarge, err)
	}
}

// What we write is read by x/net's decoder as it was meant.
func TestAppendBlocks(t *testing.T) {
	for _, tt := range []struct {
		name  string
		block []byte
		want  string
	}{
		{"connect", AppendFieldHuffman(AppendField(AppendConnect(AppendTableSize(nil), []byte("[2001:db8::1]:80")), "forwarded", []byte("for=x")), "baggage", "service.name=cart"),
			":method=CONNECT :authority=[2001:db8::1]:80 forwarded=for=x baggage=service.name=cart"},
		{"empty value", AppendFieldHuffman(AppendConnect(nil, []byte("a:1")), "baggage", ""), ":method=CONNECT :authority=a:1 baggage="},
		{"long value", AppendFieldHuffman(AppendConnect(nil, []byte("a:1")), "x", strings.Repeat("~", 500)), ":method=CONNECT :authority=a:1 x=" + strings.Repeat("~", 500)},
		{"longer value", AppendField(AppendConnect(nil, []byte("a:1")), "x", bytes.Repeat([]byte("q"), 70000)), ":method=CONNECT :authority=a:1 x=" + strings.Repeat("q", 70000)},
		{"200", AppendStatus(nil, 200), ":status=200"},
		{"204", AppendStatus(nil, 204), ":status=204"},
		{"400", AppendStatus(nil, 400), ":status=400"},
		{"401", AppendStatus(nil, 401), ":status=401"},
		{"431", AppendStatus(nil, 431), ":status=431"},
		{"500", AppendStatus(nil, 500), ":status=500"},
		{"503", AppendStatus(nil, 503), ":status=503"},
	} {
		dec := hpack.NewDecoder(0, nil)
		fields, err := dec.DecodeFull(tt.block)
		var words []string
		for _, f := range fields {
			words = append(words, f.Name+"="+f.Value)
		}
		if got := strings.Join(words, " "); err != nil || got != tt.want {
			t.Errorf("%s: got %.200s, %v", tt.name, got, err)
		}
	}
}

// A block that is longer than the peer's frames goes into several.
func TestLongBlock(t *testing.T) {
	for _, n := range []int{1, 99, 100, 101, 199, 200, 201, 1000} {
		b := append(BeginHeaders([]byte("before")), bytes.Repeat([]byte{0x82}, n)...)
		b = EndHeaders(b, 6, 3, true, 100)
		r := NewReader(Client, 1<<14, 1<<14)
		events, errs := told(&r, hello[Client], b[6:])
		if len(errs) > 0 || len(events) != 2 || len(events[1].Data) != n || !events[1].End || events[1].Stream != 3 || string(b[:6]) != "before" {
			t.Errorf("%d bytes: %v, %v", n, events, errs)
		}
		frames := 0
		for rest := b[6:]; len(rest) > 0; frames++ {
			size := int(rest[1])<<8 | int(rest[2])
			if size > 100 {
				t.Errorf("%d bytes: a frame of %d", n, size)
			}
			rest = rest[HeadBytes+size:]
		}
		if want := (n + 99) / 100; frames != want {
			t.Errorf("%d bytes: %d frames, want %d", n, frames, want)
		}
	}
}
