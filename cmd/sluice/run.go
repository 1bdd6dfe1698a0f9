package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/pkg/profile"
	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/dataplane/node"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// Capture modes that this proxy serves, the best first.
func modes() []string { return []string{"direct", "redirect"} }

func runCommand() *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve the pods that the agent hands over",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(s.environment(cmd, os.LookupEnv), s.finish()); err != nil {
				return err
			}
			return run(cmd.Context(), &s)
		},
	}
	s.flags(cmd)
	return cmd
}

// proxyCommand is the mesh's own proxy's word for run; it ignores what follows.
func proxyCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "proxy",
		Short:              "The same, set by the environment alone",
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var s settings
			s.flags(cmd)
			if err := errors.Join(s.environment(cmd, os.LookupEnv), s.finish()); err != nil {
				return err
			}
			return run(cmd.Context(), &s)
		},
	}
}

// run serves until a signal ends it. A second interrupt ends it at once.
func run(ctx context.Context, s *settings) error {
	start := time.Now()
	lv, err := parseLevels(s.logLevel)
	if err != nil {
		return err
	}
	log := slog.New(newLineHandler(os.Stdout, s.logFormat == "json", lv))
	soft, hard, err := sys.RaiseFileLimit()
	if err != nil {
		log.Warn("the limit of descriptors stays", "soft", soft, "hard", hard, "error", err)
	}
	if err := selfTest(s.cfg.Session.NoMark); err != nil {
		return err
	}
	if mode, ok := profiles()[s.profile]; ok {
		defer profile.Start(mode, profile.ProfilePath(s.profileDir), profile.NoShutdownHook, profile.Quiet).Stop()
	}
	s.cfg.Log, s.cfg.Version, s.cfg.Pods.Modes = log, buildVersion(), modes()
	n, err := node.New(s.cfg)
	if err != nil {
		return err
	}
	log.Info("sluice starts", "version", s.cfg.Version, "config", n.Settings(), "took", time.Since(start).String())

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, sys.SIGTERM)
	defer signal.Stop(signals)
	go endOnSignal(ctx, cancel, signals, log)
	err = n.Run(ctx)
	log.Info("sluice ends")
	return err
}

// endOnSignal starts the drain at the first signal and ends the process at an
// interrupt after that.
func endOnSignal(ctx context.Context, drain func(), signals <-chan os.Signal, log *slog.Logger) {
	for first := true; ; first = false {
		select {
		case sig := <-signals:
			if first {
				log.Info("drain begins", "signal", sig.String())
				drain()
				ctx = context.Background()
			} else if sig == os.Interrupt {
				os.Exit(0)
			}
		case <-ctx.Done():
			return
		}
	}
}

// selfTest finds out before anything else whether this process may do what a
// proxy has to: enter namespaces and mark sockets.
func selfTest(noMark bool) error {
	if err := sys.CanEnterNamespaces(); err != nil {
		return fmt.Errorf("enter a network namespace: %w; the process needs CAP_SYS_ADMIN", err)
	}
	if noMark {
		return nil
	}
	var f sys.FD
	if err := sys.Socket(&f, sys.IPv4); err != nil {
		return fmt.Errorf("make a socket: %w", err)
	}
	defer f.Close()
	if err := sys.SetMark(&f, sys.Mark); err != nil {
		return fmt.Errorf("mark a socket: %w; the process needs CAP_NET_ADMIN", err)
	}
	return nil
}

func profiles() map[string]func(*profile.Profile) {
	return map[string]func(*profile.Profile){
		"cpu": profile.CPUProfile, "mem": profile.MemProfile, "block": profile.BlockProfile,
		"mutex": profile.MutexProfile, "trace": profile.TraceProfile,
	}
}
