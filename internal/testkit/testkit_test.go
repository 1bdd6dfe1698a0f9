package testkit_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// A recorder stands in for a test, so that a failure can be looked at. Fatal
// ends the goroutine as in a real test.
type recorder struct {
	testing.TB // for what is not overridden below
	cleanups   []func()
	text       string
	failed     bool
}

func (r *recorder) Helper()            {}
func (r *recorder) Setenv(_, _ string) {}
func (r *recorder) Cleanup(f func())   { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Failed() bool       { return r.failed }
func (r *recorder) Errorf(f string, a ...any) {
	r.failed = true
	r.text += fmt.Sprintf(f, a...)
}
func (r *recorder) Fatalf(f string, a ...any) {
	r.Errorf(f, a...)
	runtime.Goexit()
}

// play runs fn, then the cleanups, as package testing does.
func play(t *testing.T, fn func(t testing.TB)) *recorder {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for i := len(r.cleanups) - 1; i >= 0; i-- {
				r.cleanups[i]()
			}
		}()
		fn(r)
	}()
	<-done
	return r
}

func TestNoLeaksPasses(t *testing.T) {
	r := play(t, func(t testing.TB) {
		testkit.NoLeaks(t)
		stop := make(chan struct{})
		go func() { <-stop }()
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatalf("%v", err)
		}
		t.Cleanup(func() { f.Close(); close(stop) })
	})
	if r.failed {
		t.Errorf("nothing leaked, but: %s", r.text)
	}
}

func TestNoLeaksFindsGoroutineAndDescriptor(t *testing.T) {
	stop := make(chan struct{})
	var f *sys.FD
	r := play(t, func(tb testing.TB) {
		testkit.NoLeaks(tb)
		go leakOnPurpose(stop)
		var err error
		if f, err = sys.OpenNamespace("/proc/self/ns/net"); err != nil {
			t.Errorf("%v", err)
		}
	})
	close(stop)
	f.Close()
	for _, want := range []string{"2 leaked", "leakOnPurpose", "net:["} {
		if !strings.Contains(r.text, want) {
			t.Errorf("message lacks %q: %s", want, r.text)
		}
	}
	if sys.Checked && !strings.Contains(r.text, "OpenNamespace") {
		t.Errorf("message lacks the stack that made the descriptor: %s", r.text)
	}
}

func leakOnPurpose(stop chan struct{}) { <-stop }

func TestGolden(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("testdata", "x.txt"), []byte("one\ntwo\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r := play(t, func(t testing.TB) { testkit.Golden(t, "x.txt", "one\ntwo\n") }); r.failed {
		t.Errorf("equal text failed: %s", r.text)
	}
	if r := play(t, func(t testing.TB) { testkit.Golden(t, "x.txt", []byte("one\n2\n")) }); !strings.Contains(r.text, "line 2") {
		t.Errorf("different text gave %q", r.text)
	}
	if r := play(t, func(t testing.TB) { testkit.Golden(t, "none.txt", "") }); !strings.Contains(r.text, "-update") {
		t.Errorf("missing file gave %q", r.text)
	}
}

func TestWaiting(t *testing.T) {
	short := 20 * time.Millisecond
	for _, tt := range []struct {
		name string
		fn   func(t testing.TB)
		want string // part of the failure; "" for none
	}{
		{"eventually", func(t testing.TB) {
			n := 0
			testkit.Eventually(t, testkit.Wait, "three asks", func() bool { n++; return n == 3 })
		}, ""},
		{"never", func(t testing.TB) {
			testkit.Eventually(t, short, "the impossible", func() bool { return false })
		}, "the impossible: not within"},
		{"try", func(t testing.TB) {
			testkit.Try(t, short, "work", func() error { return errors.New("still closed") })
		}, "still closed"},
		{"receive", func(t testing.TB) {
			testkit.Receive(t, short, "a value", make(chan int))
		}, "a value: not within"},
		{"closed", func(t testing.TB) {
			ch := make(chan int)
			close(ch)
			testkit.Receive(t, short, "a value", ch)
		}, "channel closed"},
		{"within", func(t testing.TB) {
			testkit.Within(t, testkit.Wait, "a call", func() error { return errors.New("refused") })
		}, "a call: refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := play(t, tt.fn)
			if r.failed != (tt.want != "") || !strings.Contains(r.text, tt.want) {
				t.Errorf("failed %v, text %q; want %q", r.failed, r.text, tt.want)
			}
		})
	}
}

func TestTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	text := "| x |\n| --- |\n| no |\n\n## Here\n\nwords\n\n| A | B |\n| --- | --- |\n| `a`, `b` | c |\n| d | |\n\n| E |\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	got := testkit.Table(t, file, "## Here")
	if len(got) != 2 || got[0][1] != "c" || got[1][0] != "d" || got[1][1] != "" {
		t.Errorf("table: %q", got)
	}
	if code := testkit.Code(got[0][0]); len(code) != 2 || code[0] != "a" || code[1] != "b" {
		t.Errorf("code: %q", code)
	}
}
