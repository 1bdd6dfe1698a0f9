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

func TestSampledReadsStillShowWhatIsLost(t *testing.T) {
	p := NewPattern(3, true)
	b := append([]byte(nil), p.Window(1000, 4096)...)
	if !p.Fits(1000, b, false) || p.Fits(1001, b, false) || p.Fits(1000, append(b[:2000:2000], b[2001:]...), false) {
		t.Error("a shifted read, or one that lacks a byte, passes; or a good one does not")
	}
	b[2000] ^= 1
	if p.Fits(1000, b, true) {
		t.Error("a flipped bit passes a full comparison")
	}
	s := sampler{every: 8}
	n := 0
	for range 80 {
		if s.full() {
			n++
		}
	}
	if n != 10 || !(&sampler{}).full() {
		t.Errorf("%d of 80 reads are compared in full; want 10, and all when nothing is said", n)
	}
}
