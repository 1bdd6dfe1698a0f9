package logs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/logs"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// ring is records in a slice; more may come.
type ring struct {
	mu   sync.Mutex
	recs []flow.Record
}

func (r *ring) put(recs ...flow.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.recs = append(r.recs, recs...)
}

func (r *ring) Take(write func(*flow.Record)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.recs {
		write(&r.recs[i])
	}
	r.recs = nil
}

func output(t *testing.T, w *bytes.Buffer, format logs.Format, list string) *logs.Output {
	t.Helper()
	levels, err := logs.ParseLevels(list)
	if err != nil {
		t.Fatal(err)
	}
	return logs.New(w, format, levels)
}

// written is the lines of records.
func written(t *testing.T, format logs.Format, list string, recs ...flow.Record) string {
	t.Helper()
	var out bytes.Buffer
	r := &ring{}
	r.put(recs...)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	output(t, &out, format, list).Drain(ended, []logs.Ring{r}) // what is left is written when the end has come
	return out.String()
}

// sample is a flow that carried something, by path and how it ended.
func sample(path flow.Path, why flow.CloseReason) flow.Record {
	at := netip.MustParseAddrPort
	r := flow.Record{
		ID: 1<<56 + 7, Tuple: flow.Tuple{Client: at("192.0.2.1:40000"), Dst: at("198.51.100.2:80")}, Upstream: at("198.51.100.2:80"),
		Path: path, Verdict: flow.Direct, Reason: why, Counts: flow.Counts{Up: 10, Down: 2000, DownSpliced: 1500},
		AgeNano: int64(12*time.Millisecond + 999*time.Microsecond),
		EndNano: time.Date(2026, 8, 20, 12, 11, 12, 345678901, time.FixedZone("east", 7200)).UnixNano(),
		Pod:     &flow.Pod{UID: "u", Name: "web-1", Namespace: "shop", ServiceAccount: "sa"},
	}
	if path.Inbound() {
		r.Tuple = flow.Tuple{Client: at("[2001:db8::1]:40000"), Dst: at("[2001:db8::2]:80")}
		r.Source = at("[2001:db8::1]:16384")
	} else {
		r.Source = at("192.0.2.1:0") // the kernel's port
	}
	if path.Tunnelled() {
		r.Authority = r.Tuple.Dst
		r.Us = flow.Identity{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "sa"}
		r.Them = flow.Identity{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "other"}
	}
	if path == flow.OutboundHBONE {
		r.Verdict, r.Upstream = flow.Tunnel, at("198.51.100.2:15008")
	}
	return r
}

// everyKind is a flow out, one in, one denied, one that failed, one that was reset,
// and three that went through tunnels, or should have.
func everyKind() []flow.Record {
	denied := sample(flow.Outbound, flow.CloseStraight)
	denied.Verdict, denied.Counts, denied.AgeNano, denied.Source, denied.Upstream = flow.Deny, flow.Counts{}, 0, netip.AddrPort{}, netip.AddrPort{}
	failed := sample(flow.Outbound, flow.CloseRefused)
	failed.Errno, failed.Counts = uintptr(sys.ECONNREFUSED), flow.Counts{}
	reset := sample(flow.Inbound, flow.CloseClientReset)
	reset.Errno = uintptr(sys.ECONNRESET)
	odd := sample(flow.Inbound, flow.CloseDrain)
	odd.Pod = &flow.Pod{Name: "a \"b\"\n\xff<&>", Namespace: "größe"}
	unproved := sample(flow.InboundHBONE, flow.CloseHandshake)
	unproved.Verdict, unproved.Authority, unproved.Them = flow.Deny, netip.AddrPort{}, flow.Identity{}
	unproved.Detail = "tls handshake: certificate has expired"
	return []flow.Record{
		sample(flow.Outbound, flow.CloseEOF), sample(flow.Inbound, flow.CloseEOF), denied, failed, reset, odd,
		sample(flow.OutboundHBONE, flow.CloseEOF), sample(flow.InboundHBONE, flow.CloseEOF), unproved,
	}
}

func TestAccessLogLines(t *testing.T) {
	testkit.Golden(t, "access-plain.golden", written(t, logs.Plain, "", everyKind()...))
	text := written(t, logs.JSON, "", everyKind()...)
	testkit.Golden(t, "access-json.golden", text)
	for line := range strings.Lines(text) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Errorf("%v: %s", err, line)
		}
	}
}

// A line is an error when the flow failed or was cut, and then says why; a reset
// of an application is none. Nothing ends for a reason that has no words.
func TestAccessLogLevels(t *testing.T) {
	fine := []flow.CloseReason{flow.CloseEOF, flow.CloseClientReset, flow.CloseServerReset, flow.CloseClientGone}
	for why := flow.CloseEOF; why < flow.Reasons; why++ {
		line := written(t, logs.Plain, "", sample(flow.Outbound, why))
		bad := true
		for _, f := range fine {
			bad = bad && f != why
		}
		level := "\tinfo\taccess\t"
		if bad {
			level = "\terror\taccess\t"
		}
		if !strings.Contains(line, level) || strings.Contains(line, " error=") != bad || strings.Contains(line, "unknown reason") ||
			!strings.Contains(line, ` reason="`+why.String()+`" `) {
			t.Errorf("%v: %s", why, line)
		}
		if cut := why == flow.CloseDrain || why == flow.ClosePodDrain; cut != strings.Contains(line, `error="connection closed due to connection drain`) {
			t.Errorf("%v: %s", why, line)
		}
	}
}

// Levels choose among flows.
func TestAccessLogScope(t *testing.T) {
	for list, want := range map[string]int{"": 9, "off": 0, "access=info": 9, "warn,access=off": 0, "info,access=error": 2, "warn": 4, "access=warn": 4} {
		if got := strings.Count(written(t, logs.Plain, list, everyKind()...), "\n"); got != want {
			t.Errorf("%q: %d lines of 9; want %d", list, got, want)
		}
	}
}

// Records are written while the proxy runs, and all that are left at its end.
func TestDrain(t *testing.T) {
	testkit.NoLeaks(t)
	var mu sync.Mutex
	var lines int
	levels, err := logs.ParseLevels("")
	if err != nil {
		t.Fatal(err)
	}
	o := logs.New(writer(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		if !bytes.HasSuffix(b, []byte("\n")) {
			t.Errorf("a line was cut: %q", b[max(0, len(b)-40):])
		}
		lines += bytes.Count(b, []byte("\n"))
		return len(b), nil
	}), logs.JSON, levels)
	count := func(n int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			return lines == n
		}
	}
	a, b := &ring{}, &ring{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { o.Drain(ctx, []logs.Ring{a, b}); close(done) }()
	a.put(everyKind()...)
	b.put(everyKind()...)
	testkit.Eventually(t, testkit.Wait, "the lines of both rings", count(18))
	for range 1000 { // more than are written at once
		a.put(sample(flow.Outbound, flow.CloseEOF))
	}
	cancel()
	<-done
	if !count(1018)() {
		t.Errorf("%d lines; want 1018", lines)
	}
	o.Drain(context.Background(), nil) // without rings it returns
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// Lines that nobody takes are counted.
func TestFailedWrites(t *testing.T) {
	levels, err := logs.ParseLevels("")
	if err != nil {
		t.Fatal(err)
	}
	o := logs.New(writer(func([]byte) (int, error) { return 0, errors.New("disk full") }), logs.Plain, levels)
	r := &ring{}
	r.put(everyKind()...)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	o.Drain(ended, []logs.Ring{r})
	if o.Failed() != 1 {
		t.Errorf("%d writes are counted as failed; want 1", o.Failed())
	}
}
