// Command sluicectl is for people: it looks into a running proxy, and builds labs
// to try it in.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	err := newRoot().Execute()
	if status, ok := errors.AsType[exitStatus](err); ok {
		os.Exit(int(status)) // the program has said why itself
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "sluicectl: %v\n", err)
		os.Exit(1)
	}
}

// newRoot builds the command tree; each subcommand is in the file of its name.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "sluicectl",
		Short:         "Look into Sluice, and build labs to try it in",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(getCommand(), statusCommand(), labCommand())
	return root
}
