package measure

import (
	"flag"
	"math"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// The figure is what the kernel was asked: by the whole process, or by one thread
// while others ask as well.
func TestPerOpCountsForReal(t *testing.T) {
	if err := flag.Set("test.benchtime", "1x"); err != nil { // only its own counting is of interest
		t.Fatal(err)
	}
	work, done := make(chan int), make(chan int)
	go func() {
		runtime.LockOSThread()
		done <- unix.Gettid()
		for n := range work {
			for range n {
				unix.Getppid()
			}
			done <- n
		}
	}()
	defer close(work)
	tid := <-done
	for _, tt := range []struct {
		name string
		tid  int
		op   func()
		want float64
	}{
		{"nothing", 0, func() {}, 0},
		{"the process", 0, func() { unix.Getppid(); unix.Getuid(); work <- 3; <-done }, 5},
		{"one thread", tid, func() { unix.Getppid(); unix.Getuid(); work <- 30; <-done }, 30},
	} {
		r := testing.Benchmark(func(b *testing.B) {
			for b.Loop() {
				tt.op()
			}
			PerOp(b, tt.tid, tt.op)
		})
		// A thread that waits for its work calls futex, once or twice.
		if got, ok := r.Extra["syscalls/op"]; !ok || got < tt.want-0.1 || got > math.Max(1, tt.want*1.2) {
			t.Errorf("%s: %v calls per op, %v; want %v", tt.name, got, ok, tt.want)
		}
	}
}
