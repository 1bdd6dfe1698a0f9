package testkit

import (
	"testing"
	"time"
)

// Wait is the deadline of the helpers below when a test has no better one: so
// long that only a hang reaches it, also on a busy machine.
const Wait = 10 * time.Second

// Eventually polls cond until it holds and fails t when it does not within the
// time. what says what was waited for: "the listener on port 80".
func Eventually(t testing.TB, within time.Duration, what string, cond func() bool) {
	t.Helper()
	if !poll(within, cond) {
		t.Fatalf("testkit: %s: not within %v\n%s", what, within, Stacks())
	}
}

// Try polls fn until it returns nil and fails t with its last error when it does
// not within the time.
func Try(t testing.TB, within time.Duration, what string, fn func() error) {
	t.Helper()
	var err error
	if !poll(within, func() bool { err = fn(); return err == nil }) {
		t.Fatalf("testkit: %s: not within %v: %v", what, within, err)
	}
}

// Receive takes one value from ch and fails t when none comes within the time,
// or ch is closed.
func Receive[T any](t testing.TB, within time.Duration, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v, ok := <-ch:
		if !ok {
			t.Fatalf("testkit: %s: channel closed", what)
		}
		return v
	case <-time.After(within):
		t.Fatalf("testkit: %s: not within %v\n%s", what, within, Stacks())
	}
	panic("unreachable")
}

// Within runs fn on a goroutine of its own and fails t, with all stacks, when it
// has not returned within the time. fn must not call t.Fatal.
func Within(t testing.TB, within time.Duration, what string, fn func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- fn() }()
	if err := Receive(t, within, what, done); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// poll asks cond at once, then ever less often up to every 20 ms, until it holds
// or the time is over; the last question is asked at the deadline.
func poll(within time.Duration, cond func() bool) bool {
	deadline := time.Now().Add(within)
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 20*time.Millisecond) {
		if cond() {
			return true
		}
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		time.Sleep(min(pause, left))
	}
}
