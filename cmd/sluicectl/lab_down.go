package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/bench/lab"
)

func labDownCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "End every process of a lab and remove it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := lab.Open(*name)
			if err != nil {
				return err
			}
			if err := l.Close(); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "lab %s is gone\n", *name)
			return nil
		},
	}
}
