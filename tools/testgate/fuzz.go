package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// fuzzAll fuzzes every target for the time d, as many at once as there are
// processors. A target without seeds in testdata/fuzz fails: nobody has thought
// about what it should see.
func fuzzAll(ctx context.Context, source []testFile, d time.Duration) error {
	targets, err := find(source, nil, func(name string) bool { return strings.HasPrefix(name, "Fuzz") })
	if err != nil {
		return err
	}
	var (
		wg   sync.WaitGroup
		slot = make(chan struct{}, runtime.NumCPU())
		mu   sync.Mutex // guards bad, n and the order of output
		bad  []error
		n    int
	)
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		bad = append(bad, err)
	}
	for _, dir := range slices.Sorted(maps.Keys(targets)) {
		for _, name := range targets[dir] {
			if !hasCorpus(dir, name) {
				fail(fmt.Errorf("%s in %s has no corpus in testdata/fuzz/%s", name, dir, name))
				continue
			}
			wg.Go(func() {
				slot <- struct{}{}
				defer func() { <-slot }()
				out, err := fuzzOne(ctx, dir, name, d)
				mu.Lock()
				defer mu.Unlock()
				n++
				if err != nil {
					os.Stdout.Write(out)
					bad = append(bad, fmt.Errorf("%s in %s: %w", name, dir, err))
					return
				}
				fmt.Printf("ok    fuzz     %s %s %v\n", dir, name, d)
			})
		}
	}
	wg.Wait()
	fmt.Printf("fuzz: %d targets, %d failed\n", n, len(bad))
	return errors.Join(bad...)
}

// fuzzOne fuzzes one target. Finds are made smaller in a few steps only: where
// coverage depends on timing, as behind a loop, go test would by default spend
// its whole time on the first of them.
func fuzzOne(ctx context.Context, dir, name string, d time.Duration) ([]byte, error) {
	out, err := exec.CommandContext(ctx, "go", "test", "-vet=off", "-run=^$", "-fuzz=^"+name+"$",
		"-fuzztime="+d.String(), "-fuzzminimizetime=20x", "-parallel=1", "./"+filepath.ToSlash(dir)).CombinedOutput()
	if err != nil && overdue(out) {
		err = nil
	}
	return out, err
}

// overdue reports that go test failed for nothing but the end of its time, which it
// takes for a failure when a worker is slow to answer just then. What a target finds
// is written to a file.
func overdue(out []byte) bool {
	return bytes.Contains(out, []byte("\n    context deadline exceeded\n")) && !bytes.Contains(out, []byte("Failing input written"))
}
