package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/pkg/profile"
	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/bench/measure"
	"github.com/sluice-mesh/sluice/bench/report"
	"github.com/sluice-mesh/sluice/bench/scenario"
	"github.com/sluice-mesh/sluice/bench/subject"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// runFlags are the flags of run.
type runFlags struct {
	scenarios, paths, modes, subjects []string
	builds, peers                     []string
	quick                             bool
	rounds, turns, loops              int
	warm, length                      time.Duration
	strace                            string
	bin, out                          string
	profile                           string
	seed                              uint64
}

// fileLimit is for 9000 connections that pass one proxy twice, and some.
const fileLimit = 60000

func runCommand() *cobra.Command {
	f := new(runFlags)
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Measure, and write the result to a file",
		Long: `Measure, and write the result to a file. Needs root: the lab is made of network
namespaces. Names of scenarios, paths, modes and subjects may be patterns.

  sluice-bench run --quick
  sluice-bench run --scenario 'bulk-*' --path out --subject wire,splice,sluice --rounds 10
  sluice-bench run --peer mine=/opt/haproxy,mine.json --mode redirect`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	fs := cmd.Flags()
	fs.StringSliceVar(&f.scenarios, "scenario", nil, "scenarios; default all")
	fs.StringSliceVar(&f.paths, "path", nil, "paths; default all")
	fs.StringSliceVar(&f.modes, "mode", nil, "capture modes; default all")
	fs.StringSliceVar(&f.subjects, "subject", nil, "subjects, those of --build and --peer too; default all")
	fs.StringArrayVar(&f.builds, "build", nil, "NAME=FOLDER: another build of sluice as a subject")
	fs.StringArrayVar(&f.peers, "peer", nil, "NAME=PATH[,DESCRIPTION]: another proxy as a subject")
	fs.BoolVar(&f.quick, "quick", false, "only the quick scenarios and paths and the main subjects, 2 short rounds")
	fs.IntVar(&f.rounds, "rounds", 6, "how often all is measured; 6 give an interval of 95 %")
	fs.IntVar(&f.turns, "turns", 1, "above 1: start the subjects of a path and mode at the same time, and measure each scenario so often by turns in each round")
	fs.IntVar(&f.loops, "loops", runtime.NumCPU(), "threads of each subject")
	fs.DurationVar(&f.warm, "warm", 200*time.Millisecond, "load before the counted time")
	fs.DurationVar(&f.length, "length", time.Second, "counted time of each measurement")
	fs.StringVar(&f.strace, "strace", "once", "count system calls in a second pass: never, once, or in each round")
	fs.StringVar(&f.bin, "bin", "", "folder of sluice and sluice-redirect; default that of sluice-bench")
	fs.StringVarP(&f.out, "output", "o", "", "result file; default out/bench-TIME.json")
	fs.StringVar(&f.profile, "profile", "", "profile the bench and sluice: cpu, mem, block, mutex or trace; saved beside the result")
	fs.Uint64Var(&f.seed, "seed", 1, "of the order and of the bytes")
	return cmd
}

func (f *runFlags) run(cmd *cobra.Command) (err error) {
	if f.quick {
		f.quicken(cmd)
	}
	opt, err := f.chosen()
	if err != nil {
		return err
	}
	if opt.Self, err = os.Executable(); err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if opt.Bin = f.bin; opt.Bin == "" {
		opt.Bin = filepath.Dir(opt.Self)
	}
	if opt.Bin, err = filepath.Abs(opt.Bin); err != nil {
		return fmt.Errorf("folder of programs: %w", err)
	}
	if err := subject.CheckBin(opt.Bin); err != nil {
		return fmt.Errorf("programs of ours: %w", err)
	}
	if f.out == "" {
		f.out = filepath.Join("out", "bench-"+time.Now().UTC().Format("20060102-150405")+".json")
	}
	if err := os.MkdirAll(filepath.Dir(f.out), 0o755); err != nil {
		return fmt.Errorf("folder of the result: %w", err)
	}
	if f.profile != "" {
		stop, err := f.startProfiles(&opt)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop(cmd.OutOrStdout())) }()
	}
	if err := measure.RaiseFileLimit(fileLimit); err != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "%v: fewer idle connections on one node\n", err)
	}
	out := &report.Run{Facts: facts(opt.Bin, f.loops, strings.Join(os.Args, " "))}
	// The file is written before anything is measured: where it can't be, that
	// is known now and not in half an hour.
	if err := out.Write(f.out); err != nil {
		return err
	}
	bar := newBar(cmd.ErrOrStderr())
	opt.Progress = bar.show
	ctx, stop := interruptible(cmd.Context(), cmd.ErrOrStderr())
	defer stop()
	runErr := scenario.Run(ctx, opt, out)
	bar.end()
	return errors.Join(runErr, f.finish(cmd.OutOrStdout(), out))
}

// quicken fits the quick run into three minutes, but for what was asked for.
func (f *runFlags) quicken(cmd *cobra.Command) {
	set := func(name string) bool { return cmd.Flags().Changed(name) }
	if !set("subject") && len(f.builds)+len(f.peers) == 0 {
		f.subjects = []string{"wire", "splice", "copy", "sluice", "haproxy", "nginx"}
	}
	if !set("rounds") {
		f.rounds = 2
	}
	if !set("length") {
		f.length = 400 * time.Millisecond
	}
	if !set("warm") {
		f.warm = 100 * time.Millisecond
	}
}

// finish shows the tables and keeps the samples: in the file, or when that fails
// wherever there is room.
func (f *runFlags) finish(w io.Writer, out *report.Run) error {
	err := errors.Join(out.Tables(w, report.Text), out.CallTables(w, report.Text))
	where := f.out
	writeErr := out.Write(where)
	for _, dir := range []string{os.TempDir(), "/dev/shm"} {
		if writeErr == nil {
			break
		}
		fmt.Fprintf(w, "\n%v\n", writeErr)
		where = filepath.Join(dir, filepath.Base(f.out))
		writeErr = out.Write(where)
	}
	if writeErr != nil {
		return errors.Join(err, writeErr, errors.New("the result could be kept nowhere: the tables above are all there is"))
	}
	_, printErr := fmt.Fprintf(w, "\n%d samples kept in %s\n", len(out.Samples), where)
	if len(out.Samples) == 0 {
		err = errors.Join(err, errors.New("nothing was measured; the reasons are above"))
	}
	return errors.Join(err, printErr)
}

// interruptible ends the context at the first signal, so that what was measured
// is kept and the lab is taken down. A second one ends the program at once.
func interruptible(parent context.Context, w io.Writer) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, sys.SIGTERM)
	done := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			select {
			case sig := <-signals:
				if n > 0 {
					if err := lab.RemoveOwn(); err != nil {
						fmt.Fprintln(w, err)
					}
					os.Exit(1)
				}
				fmt.Fprintf(w, "\n%v: keeping what was measured; once more ends at once\n", sig)
				cancel(fmt.Errorf("%v", sig))
			case <-done:
				return
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

// startProfiles profiles this program, and has every Sluice profile itself.
func (f *runFlags) startProfiles(opt *scenario.Options) (stop func(io.Writer) error, err error) {
	dir, err := filepath.Abs(strings.TrimSuffix(f.out, ".json") + ".profiles")
	if err != nil {
		return nil, fmt.Errorf("folder of profiles: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("folder of profiles: %w", err)
	}
	opt.Profile = scenario.Profile{Kind: f.profile, Dir: dir}
	modes := map[string]func(*profile.Profile){
		"cpu": profile.CPUProfile, "mem": profile.MemProfile, "block": profile.BlockProfile,
		"mutex": profile.MutexProfile, "trace": profile.TraceProfile,
	}
	own := profile.Start(modes[f.profile], profile.ProfilePath(filepath.Join(dir, "bench")), profile.NoShutdownHook, profile.Quiet)
	return func(w io.Writer) error {
		own.Stop()
		return topTables(w, dir, opt.Bin)
	}, nil
}
