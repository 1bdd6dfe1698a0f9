package load

import "testing"

func TestPatternFindsWhatChanged(t *testing.T) {
	up, again, down := NewPattern(7, true), NewPattern(7, true), NewPattern(7, false)
	long := make([]byte, 0, 3*patternBytes)
	for len(long) < 2*patternBytes+100 {
		long = append(long, up.Window(int64(len(long)), 50000)...)
	}
	if !again.Matches(0, long) {
		t.Fatal("the same seed gives other bytes")
	}
	if !again.Matches(1000, long[1000:]) {
		t.Error("a later offset does not fit")
	}
	if down.Matches(0, long[:64]) || NewPattern(8, true).Matches(0, long[:64]) {
		t.Error("another direction or seed gives the same bytes")
	}
	for _, shift := range []int{1, 4096, 65536, 131072} {
		if again.Matches(int64(shift), long[:4096]) {
			t.Errorf("bytes from %d further on pass", shift)
		}
	}
	long[2*patternBytes+50] ^= 1
	if again.Matches(0, long) {
		t.Error("one flipped bit passes")
	}
}
