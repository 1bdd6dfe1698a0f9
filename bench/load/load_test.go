package load

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"
)

// freePorts finds n consecutive ports that nobody listens on.
func freePorts(t *testing.T, n int) []netip.AddrPort {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		first := l.Addr().(*net.TCPAddr).AddrPort()
		free := int(first.Port())+n < 1<<16
		for i := 1; i < n && free; i++ {
			next, err := net.Listen("tcp4", netip.AddrPortFrom(first.Addr(), first.Port()+uint16(i)).String())
			if free = err == nil; free {
				defer next.Close()
			}
		}
		l.Close()
		if free {
			return Addrs(first.Addr(), first.Port(), n)
		}
	}
	t.Fatalf("no %d ports in a row are free", n)
	return nil
}

// serve runs a server until the test calls stop, which returns what it saw.
func serve(t *testing.T, spec Spec) (stop func() *Result) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan struct{})
	type end struct {
		res *Result
		err error
	}
	ended := make(chan end, 1)
	go func() {
		res, err := Server(ctx, spec, func(e Event) {
			if e.Event == EventReady {
				close(ready)
			}
		})
		ended <- end{res, err}
	}()
	select {
	case <-ready:
	case e := <-ended:
		t.Fatalf("server ended at once: %v", e.err)
	}
	var once sync.Once
	var res *Result
	stop = func() *Result {
		once.Do(func() {
			cancel()
			e := <-ended
			if e.err != nil {
				t.Errorf("server: %v", e.err)
			}
			res = e.res
		})
		return res
	}
	t.Cleanup(func() { stop() })
	return stop
}

func drive(t *testing.T, spec Spec) *Result {
	t.Helper()
	var events []string
	res, err := Client(t.Context(), spec, func(e Event) { events = append(events, e.Event) })
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(events, " "); got != "begin end result" {
		t.Errorf("events are %q; want begin end result", got)
	}
	return res
}

func TestEveryKindOfLoad(t *testing.T) {
	for _, tt := range []struct {
		name string
		spec Spec
	}{
		{"bulk up", Spec{Kind: Bulk, Conns: 1}},
		{"bulk up, 8 streams on 2 threads", Spec{Kind: Bulk, Conns: 8, Threads: 2}},
		{"bulk down", Spec{Kind: Bulk, Conns: 1, Down: true}},
		{"bulk down, 8 streams", Spec{Kind: Bulk, Conns: 8, Down: true}},
		{"one byte", Spec{Kind: Exchange, Conns: 1, Request: 1, Reply: 1}},
		{"100 bytes, 64 connections", Spec{Kind: Exchange, Conns: 64, Request: 100, Reply: 100}},
		{"16 KiB", Spec{Kind: Exchange, Conns: 4, Request: 16 << 10, Reply: 16 << 10}},
		{"open loop", Spec{Kind: Exchange, Conns: 16, Request: 100, Reply: 100, Rate: 2000}},
		{"churn, client FIN", Spec{Kind: Churn, Conns: 8, Request: 100, Reply: 100, Close: ClientFIN}},
		{"churn, server FIN", Spec{Kind: Churn, Conns: 8, Request: 100, Reply: 100, Close: ServerFIN}},
		{"churn, reset", Spec{Kind: Churn, Conns: 8, Request: 100, Reply: 100, Close: ClientReset}},
		{"churn, open loop", Spec{Kind: Churn, Conns: 8, Request: 100, Reply: 100, Rate: 500}},
		{"idle", Spec{Kind: Idle, Conns: 200, Request: 1, Reply: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := tt.spec
			spec.To, spec.Seed = freePorts(t, 3), 42
			spec.Warm, spec.Length = 20*time.Millisecond, 150*time.Millisecond
			stop := serve(t, spec)
			res := drive(t, spec)
			srv := stop()
			if res.Failures() > 0 || srv.Failures() > 0 {
				t.Errorf("errors: client %v, server %v", res.Errors, srv.Errors)
			}
			if res.Bytes == 0 {
				t.Error("no bytes counted")
			}
			if spec.Kind != Bulk && uint64(res.Exchanges) != res.Latency.Count-uint64(res.Unserved) {
				t.Errorf("%d exchanges and %d unserved, but %d latencies", res.Exchanges, res.Unserved, res.Latency.Count)
			}
			switch {
			case spec.Kind == Bulk && !spec.Down:
				if srv.Received != res.Sent {
					t.Errorf("client sent %d bytes, server received %d", res.Sent, srv.Received)
				}
			case spec.Kind == Churn:
				if srv.Opened < res.Exchanges || res.Opened == 0 {
					t.Errorf("%d exchanges over %d connections; server saw %d", res.Exchanges, res.Opened, srv.Opened)
				}
			case spec.Kind == Idle:
				if res.Exchanges != 200 || res.Opened != 200 {
					t.Errorf("%d exchanges on %d connections; want 200 on 200", res.Exchanges, res.Opened)
				}
			}
			if spec.Rate > 0 {
				want := spec.Rate * spec.Length.Seconds()
				if got := float64(res.Exchanges + res.Unserved); got < want*0.99-1 || got > want*1.01+1 {
					t.Errorf("%v exchanges were due; want %v", got, want)
				}
			}
		})
	}
}

// pausing is a server of one exchange after the other that stands still once.
func pausing(t *testing.T, after int, pause time.Duration) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		down, in := NewPattern(42, false), make([]byte, 10)
		for i, out := 0, int64(0); ; i++ {
			if _, err := io.ReadFull(c, in); err != nil {
				return
			}
			if i == after {
				<-time.After(pause)
			}
			n, err := c.Write(down.Window(out, 10))
			if err != nil {
				return
			}
			out += int64(n)
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// A pause of the server delays every request that was due in it: an open loop
// has to show that, where a closed loop shows one slow request.
func TestOpenLoopHidesNoPause(t *testing.T) {
	const pause = 200 * time.Millisecond
	spec := Spec{Kind: Exchange, Conns: 1, Request: 10, Reply: 10, Length: 400 * time.Millisecond, Seed: 42}

	spec.To = []netip.AddrPort{pausing(t, 20, pause)}
	closedLoop := drive(t, spec)
	// One of the 21 requests until then, or of more: the same figure hides it.
	if closedLoop.Latency.P90 > pause.Seconds()/2 {
		t.Errorf("closed loop has p90 %v s; want less than half the pause", closedLoop.Latency.P90)
	}

	spec.To, spec.Rate = []netip.AddrPort{pausing(t, 20, pause)}, 1000
	openLoop := drive(t, spec)
	if openLoop.Failures() > 0 {
		t.Errorf("errors: %v", openLoop.Errors)
	}
	if got := openLoop.Exchanges + openLoop.Unserved; got < 395 || got > 405 {
		t.Errorf("%d exchanges; want 400, the rate times the length", got)
	}
	// Half of the requests fell into the pause, a quarter of all waited longer
	// than half of it.
	if openLoop.Latency.P90 < pause.Seconds()/2 {
		t.Errorf("open loop has p90 %v s; want more than half the pause", openLoop.Latency.P90)
	}
}

// relayFlipping passes connections on to to and flips one bit at an offset.
func relayFlipping(t *testing.T, to netip.AddrPort, up bool, offset int64) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	pass := func(dst, src net.Conn, flip bool) {
		defer dst.Close()
		b := make([]byte, 4096)
		for at := int64(0); ; {
			n, err := src.Read(b)
			if n == 0 || err != nil {
				return
			}
			if i := offset - at; flip && i >= 0 && i < int64(n) {
				b[i] ^= 1
			}
			at += int64(n)
			if _, err := dst.Write(b[:n]); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d, err := net.Dial("tcp4", to.String())
			if err != nil {
				c.Close()
				return
			}
			go pass(d, c, up)
			go pass(c, d, !up)
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func TestOneFlippedBitIsAnError(t *testing.T) {
	for _, tt := range []struct {
		name string
		spec Spec
		up   bool
		at   int64 // of the bit; in exchanges in the second one, which a busy machine gets to
	}{
		{"bulk up", Spec{Kind: Bulk, Conns: 1}, true, 100000},
		{"bulk down", Spec{Kind: Bulk, Conns: 1, Down: true}, false, 100000},
		{"request", Spec{Kind: Exchange, Conns: 1, Request: 3000, Reply: 3000}, true, 4000},
		{"reply", Spec{Kind: Exchange, Conns: 1, Request: 3000, Reply: 3000}, false, 4000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec := tt.spec
			spec.To, spec.Seed, spec.Length = freePorts(t, 1), 42, 200*time.Millisecond
			stop := serve(t, spec)
			spec.To = []netip.AddrPort{relayFlipping(t, spec.To[0], tt.up, tt.at)}
			res := drive(t, spec)
			srv := stop()
			const want = "bytes differ from the pattern"
			if tt.up && srv.Errors["read: "+want] == 0 || !tt.up && res.Errors["receive: "+want] == 0 {
				t.Errorf("not seen: client %v, server %v", res.Errors, srv.Errors)
			}
		})
	}
}

func TestErrorsAreCounted(t *testing.T) {
	deaf, err := net.Listen("tcp4", "127.0.0.1:0") // accepts nothing, answers nothing
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	gone := freePorts(t, 1)[0]
	for _, tt := range []struct {
		name, want string
		to         netip.AddrPort
	}{
		{"nobody listens", "connect: connection refused", gone},
		{"no answer", "reply: stalled", deaf.Addr().(*net.TCPAddr).AddrPort()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := drive(t, Spec{Kind: Exchange, To: []netip.AddrPort{tt.to}, Conns: 1, Request: 1, Reply: 1, Length: 50 * time.Millisecond})
			if res.Errors[tt.want] == 0 {
				t.Errorf("errors are %v; want %q among them", res.Errors, tt.want)
			}
		})
	}
}

func TestSpecFaultsComeAtOnce(t *testing.T) {
	_, err := Spec{Kind: "none", Close: "never", Rate: -1}.check()
	for _, want := range []string{"kind", "close", "address", "connections", "rate", "length"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name the %s", err, want)
		}
	}
}

func TestParseAddrs(t *testing.T) {
	got, err := ParseAddrs("192.0.2.1:7000+3")
	if err != nil || len(got) != 3 || got[2] != netip.MustParseAddrPort("192.0.2.1:7002") {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"", "192.0.2.1", "192.0.2.1:7000+", "192.0.2.1:7000+0", "192.0.2.1:65535+2"} {
		if got, err := ParseAddrs(bad); err == nil {
			t.Errorf("%q became %v", bad, got)
		}
	}
}

// The window that a sender lends is exactly what a receiver compares with.
func TestWindowIsBounded(t *testing.T) {
	p := NewPattern(1, true)
	if n := len(p.Window(5, 1<<20)); n != windowBytes {
		t.Errorf("window of %d bytes; want %d", n, windowBytes)
	}
	if !bytes.Equal(p.Window(patternBytes, 10), p.Window(0, 10)) {
		t.Error("the pattern does not repeat after its period")
	}
}
