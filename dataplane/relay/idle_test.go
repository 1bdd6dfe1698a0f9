package relay_test

import (
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/relay"
	"github.com/sluice-mesh/sluice/dataplane/splice"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

// until waits for a moment, and for what the loop does at it.
func until(t testing.TB, at time.Time) {
	t.Helper()
	testkit.Eventually(t, testkit.Wait, "a moment", func() bool { return time.Now().After(at) })
}

// A flow without a byte for its limit is reset at both sides, and not before:
// each byte, either way, starts the time anew.
func TestIdle(t *testing.T) {
	testkit.NoLeaks(t)
	const limit = 400 * time.Millisecond
	l := onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true})
	f := join(t, l, relay.Config{Idle: limit}, testkit.TCPOptions{})
	var last time.Time
	for i := range 5 {
		last = time.Now()
		first, second := f.sides(i%2 == 0)
		send(t, first, 10)
		expect(t, second, 10)
		if i < 4 {
			until(t, last.Add(limit/3))
		}
	}
	got := f.wait(t)
	if got.why != flow.CloseIdle || got.err != nil {
		t.Errorf("ended with %v, %v; want idle", got.why, got.err)
	}
	if idle := time.Since(last); idle < limit {
		t.Errorf("ended after %v without a byte; want %v", idle, limit)
	}
	expectReset(t, f.client)
	expectReset(t, f.server)
}

// A half-closed flow has a limit of its own, which begins with the FIN however
// long there was no byte before it.
func TestHalfCloseLimit(t *testing.T) {
	testkit.NoLeaks(t)
	const limit = 200 * time.Millisecond
	for _, tt := range []struct {
		name     string
		byClient bool
		cfg      relay.Config
		before   time.Duration // without a byte, before the FIN
		want     flow.CloseReason
	}{
		{"client, after a long silence", true, relay.Config{HalfClose: limit}, limit + limit/2, flow.CloseHalf},
		{"server", false, relay.Config{HalfClose: limit}, 0, flow.CloseHalf},
		{"shorter than idle", true, relay.Config{HalfClose: limit, Idle: time.Hour}, 0, flow.CloseHalf},
		{"longer than idle", false, relay.Config{HalfClose: time.Hour, Idle: limit}, 0, flow.CloseIdle},
		{"idle alone", true, relay.Config{Idle: limit}, 0, flow.CloseIdle},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := onloop.Start(t, 0, loop.Config{Pipes: splice.Config{}, PanicEnds: true})
			f := join(t, l, tt.cfg, testkit.TCPOptions{})
			first, second := f.sides(tt.byClient)
			until(t, time.Now().Add(tt.before))
			shut(t, first)
			expectEOF(t, second)
			send(t, second, 10) // it still goes on
			last := time.Now()
			expect(t, first, 10)
			if got := f.wait(t); got.why != tt.want {
				t.Errorf("ended with %v, %v; want %v", got.why, got.err, tt.want)
			}
			if idle := time.Since(last); idle < limit-10*time.Millisecond {
				t.Errorf("ended %v after the last byte; want %v", idle, limit)
			}
			expectReset(t, first)
		})
	}
}
