// Command benchgate judges whether one build costs more than another.
//
//	benchgate -base NAME -head NAME RUN1.json [RUN2.json ...]
//
// Both builds are subjects of the same runs, measured by turns. Each turn gives
// one ratio of head to base, in which much of what else the machine did falls out;
// the interval of what they come to is judged. A regression is what every run
// confirms by itself, so that one unlucky run does not fail a build.
//
// Exit codes: 0 no regression, 1 regression confirmed by two runs or more, 3 one
// run alone shows one (measure again and pass both), 2 it could not be judged.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/sluice-mesh/sluice/bench/report"
)

const (
	exitPass    = 0
	exitFail    = 1
	exitBroken  = 2
	exitSuspect = 3
)

func main() {
	code, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintf(os.Stderr, "benchgate: %v\n", err)
	}
	os.Exit(code)
}

func run(args []string, out io.Writer) (int, error) {
	fs := flag.NewFlagSet("benchgate", flag.ContinueOnError)
	base := fs.String("base", "base", "subject to compare with")
	head := fs.String("head", "head", "subject to judge")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return exitPass, nil
		}
		return exitBroken, errors.New("see benchgate -h")
	}
	if fs.NArg() == 0 {
		return exitBroken, errors.New("no result file; want those of sluice-bench run")
	}
	var runs []*report.Run
	for _, path := range fs.Args() {
		r, err := report.Read(path)
		if err != nil {
			return exitBroken, err
		}
		runs = append(runs, r)
	}
	v, err := judge(runs, *base, *head)
	if err != nil {
		return exitBroken, err
	}
	if err := v.write(out); err != nil {
		return exitBroken, err
	}
	switch {
	case len(v.regressions()) == 0:
		return exitPass, nil
	case len(runs) < 2:
		return exitSuspect, nil
	}
	return exitFail, nil
}
