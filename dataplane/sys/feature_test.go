package sys

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// A clear answer is remembered, an unclear one asked for again.
func TestFeatureRemembersClearAnswers(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers []error
		probes  int // by three checks
	}{
		{"there", []error{nil}, 1},
		{"lacking", []error{fmt.Errorf("no such option: %w", ErrUnsupported)}, 1},
		{"unclear, then there", []error{EPERM, EPERM, nil}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := 0
			f := NewFeature("flying", "9.9", func() error { n++; return tt.answers[min(n, len(tt.answers))-1] })
			var err error
			for range 3 {
				err = f.Check()
			}
			want := tt.answers[len(tt.answers)-1]
			if !errors.Is(err, want) || n != tt.probes {
				t.Errorf("%v after %d probes; want %v after %d", err, n, want, tt.probes)
			}
			if err != nil && !strings.Contains(err.Error(), "flying (Linux 9.9)") {
				t.Errorf("%v; want name and version", err)
			}
		})
	}
}

// The probes answer on the kernel that runs this: yes, or for want of rights.
func TestSocketFeatures(t *testing.T) {
	for _, f := range []*Feature{FeatureTransparent4, FeatureTransparent6, FeatureMark, FeatureBindNoPort, FeatureNamespaceCookie} {
		if err := f.Check(); err != nil && !errors.Is(err, EPERM) {
			t.Error(err)
		}
	}
	none := NewFeature("an option that no kernel has", "", optionProbe(2, 0, 9999, 1))
	if err := none.Check(); !errors.Is(err, ErrUnsupported) {
		t.Errorf("got %v; want ErrUnsupported", err)
	}
}

func TestNamespaceCookie(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a, err := NamespaceCookie()
	if errors.Is(err, ErrUnsupported) {
		t.Skipf("kernel: %v", err)
	}
	b, err2 := NamespaceCookie()
	if err != nil || err2 != nil || a == 0 || a != b {
		t.Errorf("%d, %v, then %d, %v; want the same twice", a, err, b, err2)
	}
}
