// Command testgate runs the tests of this repository, each kind the way that it
// is meant to run, and fails when one that should have run did not.
//
//	testgate [-pass race,checked,lab,plain] [-run RE] [-seed N]
//	testgate -fuzz 3s
//
// Data enters as the Go files below the working directory and as the events of
// `go test -json`; it leaves as a report on standard output whose last line is
// "N passed, N failed, N skipped". With LAB_REQUIRED in the environment a skipped
// test is a failed one. Owns the go commands that it starts.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"
)

func main() {
	names := flag.String("pass", "race,checked,lab,plain", "passes to run, in this order")
	run := flag.String("run", "", "only tests whose name matches")
	seed := flag.Int64("seed", time.Now().Unix()%100000, "of the shuffled order")
	fuzz := flag.Duration("fuzz", 0, "fuzz every target for this long instead")
	timeout := flag.Duration("timeout", 0, "per test binary, instead of the pass's own")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := gate(ctx, options{
		passes:   strings.Split(*names, ","),
		run:      *run,
		seed:     *seed,
		fuzz:     *fuzz,
		timeout:  *timeout,
		required: os.Getenv("LAB_REQUIRED") != "",
	}); err != nil {
		fmt.Fprintln(os.Stderr, "testgate:", err)
		os.Exit(1)
	}
}

type options struct {
	passes   []string
	run      string
	seed     int64
	fuzz     time.Duration
	timeout  time.Duration
	required bool // a skipped test is a failed one
}

// gate runs what the options ask for; its error says why the gate stays shut.
func gate(ctx context.Context, opt options) error {
	source, err := readSource(".")
	if err != nil {
		return err
	}
	if opt.fuzz > 0 {
		return fuzzAll(ctx, source, opt.fuzz)
	}
	fmt.Printf("testgate: shuffle seed %d; SEED=%d repeats this order\n", opt.seed, opt.seed)
	var all result
	for _, name := range opt.passes {
		p, ok := findPass(name)
		if !ok {
			return fmt.Errorf("no pass is called %q; there are race, checked, lab and plain", name)
		}
		r, err := p.execute(ctx, source, opt)
		if err != nil {
			return fmt.Errorf("pass %s: %w", name, err)
		}
		all.add(r)
	}
	return all.report(os.Stdout, opt.required)
}
