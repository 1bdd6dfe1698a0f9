// Command sluice-redirect sends the traffic of pods to the proxy: it programs
// the capture rules in their network namespaces and hands these to the proxy.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	if err := newRoot().Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "sluice-redirect: %v\n", err)
		os.Exit(1)
	}
}

// newRoot builds the command tree; each subcommand is in the file of its name.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "sluice-redirect",
		Short:         "Send the traffic of pods to the proxy",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		planCommand(),
		applyCommand(),
		removeCommand(),
		featuresCommand(),
		agentCommand(),
		enrollCommand(),
		unenrollCommand(),
		listCommand(),
	)
	return root
}
