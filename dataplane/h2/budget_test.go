package h2

import (
	"net/netip"
	"testing"
	"unsafe"
)

// Budgets of what each tunnel, stream, frame and request costs.
const (
	readAllocs    = 0 // heap allocations per DATA or control frame, however it is cut
	connectAllocs = 0 // heap allocations per CONNECT read, its fields and authority included
	writeAllocs   = 0 // heap allocations per frame or request written into room that is there

	streamBytes = 24  // of what the protocol prescribes, per stream
	readerBytes = 128 // of the Reader, per tunnel, besides what it holds
)

func TestSizeBudget(t *testing.T) {
	if got := unsafe.Sizeof(Stream{}); got > streamBytes {
		t.Errorf("a Stream is %d bytes; budget %d", got, streamBytes)
	}
	if got := unsafe.Sizeof(Reader{}); got > readerBytes {
		t.Errorf("a Reader is %d bytes; budget %d", got, readerBytes)
	}
}

// pieces are the sample in slices of n bytes.
func pieces(in []byte, n int) (out [][]byte) {
	for ; len(in) > n; in = in[n:] {
		out = append(out, in[:n])
	}
	return append(out, in)
}

func allocs(t *testing.T, what string, budget float64, fn func()) {
	t.Helper()
	fn() // buffers grow once
	if got := testing.AllocsPerRun(200, fn); got > budget {
		t.Errorf("%s: %v allocations; budget %v", what, got, budget)
	}
}

func TestReadBudget(t *testing.T) {
	in := sample(t)[len(Preface):]
	for _, n := range []int{len(in), 100, 7, 1} {
		r := NewReader(Server, testFrame, testBlock)
		told(&r, []byte(Preface))
		cut := pieces(in, n)
		events := 0
		allocs(t, "frames", readAllocs, func() {
			events = 0
			for _, b := range cut {
				for {
					ev, rest, err := r.Next(b)
					if err != nil {
						t.Fatal(err)
					}
					b = rest
					if ev.Kind == KindNone {
						break
					}
					events++
				}
			}
		})
		if events < 17 {
			t.Errorf("pieces of %d: %d events", n, events)
		}
	}
}

func TestConnectBudget(t *testing.T) {
	lines := []string{connect, target, "baggage: k8s.cluster.name=c,service.name=s", "forwarded: for=\"192.0.2.9:55\"", "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}
	d := NewDecoder(testBlock)
	d.SettingsAcked()
	for name, b := range map[string][]byte{
		"x/net's": block(t, lines...),
		"ours": AppendFieldHuffman(AppendField(AppendConnect(AppendTableSize(nil), []byte("[2001:db8::1]:80")),
			"traceparent", []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")), "baggage", "service.name=cart,cloud.region=here"),
		"baggage in pieces": block(t, connect, target, "baggage: a=b", "baggage: c=d", "baggage: e=f"),
	} {
		ev := headers(append([]byte{0x20}, b...))
		allocs(t, name, connectAllocs, func() {
			var r Request
			if err := d.Request(ev, &r); err != nil || !r.Connect() {
				t.Fatal(err)
			}
			if a, ok := ParseAuthority(r.Authority); !ok || a.Port != 80 {
				t.Fatalf("authority %s", r.Authority)
			}
			if tp, ok := ParseTraceParent(r.TraceParent); ok == (tp == TraceParent{}) || ForwardedHost(r.Forwarded) != nil {
				t.Fatal("a trace or a host that is not there")
			}
		})
	}
	ok := headers(AppendFieldHuffman(AppendStatus(nil, 200), "baggage", "service.name=cart"))
	ok.Data = append([]byte{0x20}, ok.Data...)
	allocs(t, "response", connectAllocs, func() {
		var r Response
		if err := d.Response(ok, &r); err != nil || r.Status != 200 {
			t.Fatal(err)
		}
	})
}

func TestWriteBudget(t *testing.T) {
	room := make([]byte, 0, 4096)
	client := netip.MustParseAddrPort("192.0.2.1:5000")
	g := Baggage{Cluster: "c", Namespace: "n", Kind: "pod", Workload: "w"}
	to := AddrAuthority(netip.MustParseAddrPort("[2001:db8::1]:80"))
	fixed := AppendConnect(nil, to.Append(nil))
	scratch := make([]byte, 0, 256)
	allocs(t, "frames", writeAllocs, func() {
		b := AppendSettings(room, Setting{SettingHeaderTableSize, 0}, Setting{SettingInitialWindow, 1 << 20})
		b = AppendSettingsAck(b)
		b = AppendPing(b, [8]byte{})
		b = AppendPingAck(b, b[:8])
		b = AppendWindowUpdate(b, 1, 5)
		b = AppendReset(b, 1, Cancel)
		b = AppendGoAway(b, 1, NoError, "bye")
		b = AppendData(b, 1, b[:10], true)
		PutDataHeader(b, 100, 1, false)
	})
	allocs(t, "request", writeAllocs, func() {
		b := append(AppendTableSize(BeginHeaders(room)), fixed...)
		b = AppendField(b, "forwarded", AppendForwarded(scratch, client, "cart.shop"))
		b = AppendField(b, "traceparent", TraceParent{}.Append(scratch))
		b = AppendField(b, "baggage", g.Append(scratch))
		EndHeaders(b, 0, 1, false, 1<<14)
	})
	allocs(t, "response", writeAllocs, func() {
		EndHeaders(AppendStatus(BeginHeaders(room), 503), 0, 1, true, 1<<14)
	})
}

func TestFloodBudget(t *testing.T) {
	var f Flood
	allocs(t, "count", readAllocs, func() {
		f = Flood{}
		if err := f.Count(Pings, 5); err != nil {
			t.Fatal(err)
		}
	})
}
