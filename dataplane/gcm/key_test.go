package gcm

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestNewRefuses(t *testing.T) {
	for _, n := range []int{0, 15, 17, 24, 31, 33} {
		if _, err := New(make([]byte, n), Auto); err == nil || !strings.Contains(err.Error(), "AES-128 takes 16") {
			t.Errorf("key of %d bytes: %v", n, err)
		}
	}
	if _, err := New(make([]byte, 16), Impl(99)); err == nil || !strings.Contains(err.Error(), "impl(99)") {
		t.Errorf("an implementation that is none: %v", err)
	}
}

func TestAutoIsBest(t *testing.T) {
	k, err := New(make([]byte, 16), Auto)
	if err != nil {
		t.Fatal(err)
	}
	if k.Impl() != Best() || Best() != Impls()[0] || k.NonceSize() != 12 || k.Overhead() != 16 {
		t.Errorf("Auto made %v; best is %v of %v", k.Impl(), Best(), Impls())
	}
	if !slices.Contains(Impls(), Generic) {
		t.Error("no CPU is without the generic implementation")
	}
}

func TestGenericCanBeForced(t *testing.T) {
	k, err := New(make([]byte, 16), Generic)
	if err != nil {
		t.Fatal(err)
	}
	if k.Impl() != Generic || k.generic == nil || k.vector.block != nil {
		t.Errorf("asked for %v, got %v", Generic, k.Impl())
	}
}

func TestImplNames(t *testing.T) {
	for impl, want := range map[Impl]string{
		Auto: "auto", Generic: "generic", VAES256: "vaes-256", VAES512: "vaes-512", 9: "impl(9)",
	} {
		if impl.String() != want {
			t.Errorf("%d is called %q; want %q", uint8(impl), impl, want)
		}
	}
}

// TestImplsAreAllThatTheCPUHas compares with what the kernel says about the
// CPU, so that no test of this package passes by leaving a variant out.
func TestImplsAreAllThatTheCPUHas(t *testing.T) {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	var flags []string
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "flags" {
			flags = strings.Fields(value)
			break
		}
	}
	has := func(all ...string) bool {
		return !slices.ContainsFunc(all, func(f string) bool { return !slices.Contains(flags, f) })
	}
	var want []Impl
	narrow := has("vaes", "vpclmulqdq", "avx2", "bmi2", "aes", "pclmulqdq")
	if narrow && has("avx512f", "avx512bw", "avx512vl") {
		want = append(want, VAES512)
	}
	if narrow {
		want = append(want, VAES256)
	}
	want = append(want, Generic)
	if got := Impls(); !slices.Equal(got, want) {
		t.Errorf("implementations %v; the CPU has what %v need", got, want)
	}
	t.Logf("implementations: %v", want)
}

func TestDestroyedKeyPanics(t *testing.T) {
	eachRig(t, func(t *testing.T, r rig) {
		m := r.message(random(50, NonceBytes), random(51, 50), nil)
		for _, k := range r.keys {
			k.Destroy()
			k.Destroy()
			if !panics(func() { k.Seal(nil, m.nonce, m.plain, nil) }) {
				t.Errorf("%v: Seal with a destroyed key did not panic", k.Impl())
			}
			if !panics(func() { _, _ = k.Open(nil, m.nonce, m.sealed, nil) }) {
				t.Errorf("%v: Open with a destroyed key did not panic", k.Impl())
			}
		}
	})
}

func TestMisusePanics(t *testing.T) {
	eachRig(t, func(t *testing.T, r rig) {
		m := r.message(random(52, NonceBytes), random(53, 50), nil)
		long := make([]byte, MaxBytes+1)
		for _, k := range r.keys {
			for what, fn := range map[string]func(){
				"Seal, short nonce":     func() { k.Seal(nil, m.nonce[:11], m.plain, nil) },
				"Seal, long nonce":      func() { k.Seal(nil, long[:13], m.plain, nil) },
				"Open, short nonce":     func() { _, _ = k.Open(nil, m.nonce[:11], m.sealed, nil) },
				"Seal, long message":    func() { k.Seal(nil, m.nonce, long, nil) },
				"SealRecord, long":      func() { k.SealRecord(nil, m.nonce, long[1:], 23, nil) },
				"Seal, much additional": func() { k.Seal(nil, m.nonce, nil, long[:MaxAdditional+1]) },
			} {
				if !panics(fn) {
					t.Errorf("%v: %s: did not panic", k.Impl(), what)
				}
			}
		}
		// From a stranger, too long is only not authentic.
		m.sealed = make([]byte, MaxBytes+1+TagBytes)
		for _, k := range r.keys {
			if _, err := k.Open(nil, m.nonce, m.sealed, nil); !errors.Is(err, ErrOpen) {
				t.Errorf("%v: Open of a message that is too long: %v", k.Impl(), err)
			}
			if _, err := k.Open(nil, m.nonce, m.sealed[:40], long[:MaxAdditional+1]); !errors.Is(err, ErrOpen) {
				t.Errorf("%v: Open with too much additional data: %v", k.Impl(), err)
			}
		}
	})
}
