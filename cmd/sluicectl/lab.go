package main

import (
	"github.com/spf13/cobra"
)

// defaultLab is the name of a lab when none is given.
const defaultLab = "lab"

func labCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Nodes and pods out of network namespaces, on this machine",
	}
	name := cmd.PersistentFlags().String("name", defaultLab, "which lab")
	cmd.AddCommand(
		labUpCommand(name),
		labDownCommand(name),
		labStatusCommand(name),
		labExecCommand(name),
		labDemoCommand(name),
	)
	return cmd
}
