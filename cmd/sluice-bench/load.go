package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/bench/load"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// loadCommand is one side of a load as a process of its own. The bench starts it
// inside a namespace; by hand it serves to compare with other tools.
func loadCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "load", Short: "Be one side of a load", Hidden: true}
	cmd.AddCommand(
		sideCommand("client", "Make load and print what came of it, as lines of JSON", load.Client),
		sideCommand("server", "Serve load until interrupted", load.Server),
		httpCommand(),
	)
	return cmd
}

type side func(context.Context, load.Spec, func(load.Event)) (*load.Result, error)

func sideCommand(use, short string, run side) *cobra.Command {
	var spec load.Spec
	var kind, closer, text string
	var to []string
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if text != "" {
				if err := json.Unmarshal([]byte(text), &spec); err != nil {
					return fmt.Errorf("--spec: %w", err)
				}
			} else {
				spec.Kind, spec.Close = load.Kind(kind), load.Closer(closer)
				for _, t := range to {
					addrs, err := load.ParseAddrs(t)
					if err != nil {
						return fmt.Errorf("--to: %w", err)
					}
					spec.To = append(spec.To, addrs...)
				}
			}
			return runSide(cmd, run, spec)
		},
	}
	f := cmd.Flags()
	f.StringVar(&text, "spec", "", "all of this as JSON, instead of the flags")
	f.StringVar(&kind, "kind", "exchange", "bulk, exchange, churn or idle")
	f.StringSliceVar(&to, "to", nil, "ADDRESS:PORT, or ADDRESS:PORT+N for N ports from PORT on")
	f.IntVar(&spec.Conns, "conns", 1, "connections at a time")
	f.IntVar(&spec.Threads, "threads", 1, "threads of this side")
	f.BoolVar(&spec.Down, "down", false, "bulk: from the server to the client")
	f.IntVar(&spec.Request, "request", 100, "bytes of a request")
	f.IntVar(&spec.Reply, "reply", 100, "bytes of a reply")
	f.Float64Var(&spec.Rate, "rate", 0, "exchanges a second whatever their latency; 0: each as soon as the one before is done")
	f.StringVar(&closer, "close", "client", "who ends a churn connection: client, server or reset")
	f.DurationVar(&spec.Warm, "warm", 0, "time that is not counted")
	f.DurationVar(&spec.Length, "length", 1e9, "time that is counted")
	f.IntVar(&spec.Sample, "sample", 1, "compare all bytes of one read in so many, the ends of the others")
	f.Uint64Var(&spec.Seed, "seed", 1, "of the bytes; the same on both sides")
	return cmd
}

func runSide(cmd *cobra.Command, run side, spec load.Spec) error {
	if _, _, err := sys.RaiseFileLimit(); err != nil {
		return fmt.Errorf("raise the limit of descriptors: %w", err)
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), sys.SIGTERM, os.Interrupt)
	defer stop()
	out := &lines{enc: json.NewEncoder(cmd.OutOrStdout())}
	_, err := run(ctx, spec, out.emit)
	return errors.Join(err, out.err)
}

// lines writes events, one a line, from any goroutine.
type lines struct {
	mu  sync.Mutex
	enc *json.Encoder
	err error
}

func (l *lines) emit(e load.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.enc.Encode(e); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		l.err = err
	}
}
