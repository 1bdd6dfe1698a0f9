// Command sluice-bench measures the proxy, and others beside it in the same place.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func main() {
	if err := newRoot().Execute(); err != nil {
		fmt.Fprintf(os.Stderr, "sluice-bench: %v\n", err)
		os.Exit(1)
	}
}

// newRoot builds the command tree; each subcommand is in the file of its name.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice-bench",
		Short: "Measure the proxy, and others beside it",
		Long: `Measure the proxy, and others beside it in the same place: bare loops, HAProxy,
nginx, or any program by path. All run in a lab of network namespaces, by turns.

  sluice-bench run --quick -o result.json
  sluice-bench compare before.json after.json | less`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(
		listCommand(),
		runCommand(),
		compareCommand(),
		reportCommand(),
		agreeCommand(),
		loadCommand(),
		bareCommand(),
	)
	return root
}
