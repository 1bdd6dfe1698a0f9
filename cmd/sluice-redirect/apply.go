package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/redirect/apply"
)

func applyCommand() *cobra.Command {
	var where target
	var want intentFlags
	var state string
	cmd := &cobra.Command{
		Use:   "apply",
		Short: "Put capture into a pod's namespace",
		Long: `Put capture into a pod's namespace: all of it, or nothing.

A proxy must listen in that namespace, transparently and with its sockets marked:
without one no new connection of the pod comes through. Connections that are older
than the rules are reset. The agent does this by itself, and tells the proxy; this
command is for trying things out.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, err := want.get(cmd)
			if err != nil {
				return err
			}
			ns, err := where.open()
			if err != nil {
				return err
			}
			defer ns.Close()
			res, err := apply.Apply(ns, in, apply.StateDir(state))
			if err != nil {
				return err
			}
			what := "captured now"
			if res.Already {
				what = "was captured before, rules made anew"
			}
			left := ""
			if res.Left > 0 {
				left = fmt.Sprintf(", %d left that end when they next send", res.Left)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%v: %s; %d older connections reset%s\nA proxy must listen there: without one no new connection comes through.\n",
				ns.ID(), what, res.Reset, left)
			return err
		},
	}
	where.addFlags(cmd)
	want.addFlags(cmd)
	addStateDir(cmd, &state)
	return cmd
}

func addStateDir(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "state-dir", defaultStateDir, "folder that keeps what remove must put back")
}
