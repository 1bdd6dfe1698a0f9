package main

import (
	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/redirect"
)

// planCommand prints what apply would do.
func planCommand() *cobra.Command {
	var in redirect.Intent
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Print what apply would do, as nft, ip and sysctl lines",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := in.Mode.MarshalText()
			cmd.Printf("%s\n", b)
			return err
		},
	}
	cmd.Flags().TextVar(&in.Mode, "mode", redirect.ModeDirect, "capture mode")
	return cmd
}
