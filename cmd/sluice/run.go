package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/dataplane/admin"
	"github.com/sluice-mesh/sluice/dataplane/logs"
	"github.com/sluice-mesh/sluice/dataplane/node"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

func runCommand(env lookup) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve the pods that the agent hands over",
		Long: `Serve the pods that the agent hands over, until SIGTERM or an interrupt.

A flag beats the environment, which beats the default. Each flag has a variable:
SLUICE_ and its name, such as SLUICE_POD_DRAIN; those of the mesh's own proxy are
known too.`,
		Args: cobra.NoArgs,
	}
	given := registerFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return start(cmd.Context(), given, env, "run") }
	return cmd
}

// proxyCommand is the word of the mesh's own proxy for run; it ignores what
// follows.
func proxyCommand(env lookup) *cobra.Command {
	return &cobra.Command{
		Use:                "proxy",
		Short:              "The same, set by the environment alone",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return start(cmd.Context(), nil, env, strings.Join(append([]string{"proxy"}, args...), " "))
		},
	}
}

// start reads the settings and serves.
func start(ctx context.Context, given flags, env lookup, args string) error {
	s, err := readSettings(given, env)
	if err != nil {
		return err
	}
	s.shown["command"] = args
	return serve(ctx, s, build(env))
}

// serve runs the node until a signal ends it.
func serve(ctx context.Context, s *settings, b admin.Build) error {
	begin := time.Now()
	out := logs.New(os.Stdout, s.logFormat, s.levels)
	log := slog.New(out.Handler())
	if err := selfTest(s.node.Session.NoMark); err != nil {
		return err
	}
	raiseFileLimit(log)
	for _, w := range s.warnings {
		log.Warn(w)
	}
	defer s.profile.start()()
	s.node.Log, s.node.Flows, s.node.Build, s.node.Shown = log, out, b, s.shown
	n, err := node.New(s.node)
	if err != nil {
		return err
	}
	log.Info("sluice starts", "version", b.Version, "revision", b.Revision, "config", s.shown, "took", time.Since(begin))

	ctx, drain := context.WithCancel(ctx)
	defer drain()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, sys.SIGTERM)
	defer signal.Stop(signals)
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { watchSignals(signals, ended, drain, os.Exit, log) })
	err = n.Run(ctx)
	close(ended)
	wg.Wait()
	log.Info("sluice ends")
	return err
}

// watchSignals starts the drain at the first signal and ends the process at an
// interrupt after that.
func watchSignals(signals <-chan os.Signal, ended <-chan struct{}, drain func(), exit func(int), log *slog.Logger) {
	for draining := false; ; {
		select {
		case sig := <-signals:
			switch {
			case !draining:
				log.Info("drain begins", "reason", sig.String())
				drain()
				draining = true
			case sig == os.Interrupt:
				exit(0)
			}
		case <-ended:
			return
		}
	}
}

// raiseFileLimit makes room for descriptors, of which each flow needs two.
func raiseFileLimit(log *slog.Logger) {
	soft, hard, err := sys.RaiseFileLimit()
	if err != nil {
		log.Warn("limit of descriptors can't be raised", "soft", soft, "hard", hard, "error", err)
	} else if soft != hard {
		log.Info("limit of descriptors raised", "from", soft, "to", hard)
	}
}
