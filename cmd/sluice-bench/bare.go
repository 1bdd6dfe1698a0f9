package main

import (
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/bench/bare"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// bareCommand is a bare relay as a process of its own.
func bareCommand() *cobra.Command {
	var c bare.Config
	var engine string
	var ports []uint
	cmd := &cobra.Command{
		Use: "bare", Short: "Be a bare relay behind capture rules", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, _, err := sys.RaiseFileLimit(); err != nil {
				return fmt.Errorf("raise the limit of descriptors: %w", err)
			}
			c.Engine = bare.Engine(engine)
			for _, p := range ports {
				c.Ports = append(c.Ports, uint16(p))
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), sys.SIGTERM, os.Interrupt)
			defer stop()
			return bare.Run(ctx, c, func() { fmt.Fprintln(cmd.OutOrStdout(), "ready") })
		},
	}
	f := cmd.Flags()
	f.StringVar(&engine, "engine", "splice", "splice, copy or naive")
	f.UintSliceVar(&ports, "port", []uint{15001, 15006}, "to listen on")
	f.Uint16Var(&c.App, "app", 15006, "the port whose flows go to the pod's own application")
	f.IntVar(&c.Loops, "loops", 2, "threads")
	f.BoolVar(&c.Own, "own", false, "dial from the pod's own address instead of the client's")
	return cmd
}
