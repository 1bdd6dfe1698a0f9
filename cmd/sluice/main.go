// Command sluice is the proxy of a node. `sluice run` serves; it also answers to
// the command line of the mesh's own proxy, so that it can take its place.
package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func main() { os.Exit(execute(os.Args[1:], os.LookupEnv, os.Stdout, os.Stderr)) }

// execute runs one command line and returns the exit status.
func execute(args []string, env lookup, stdout, stderr io.Writer) int {
	root := newRoot(env)
	if len(args) == 0 { // as the mesh's own proxy: no argument runs
		args = []string{"proxy"}
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.Execute(); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			fmt.Fprintln(stderr, "sluice:", line)
		}
		return 1
	}
	return 0
}

// newRoot builds the command tree; each subcommand is in the file of its name.
func newRoot(env lookup) *cobra.Command {
	root := &cobra.Command{
		Use:           "sluice",
		Short:         "The proxy of a node: carries the TCP traffic of its pods",
		Long:          "The proxy of a node: carries the TCP traffic of its pods.\nVersion: " + build(env).Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			cmd.SetOut(cmd.ErrOrStderr())
			_ = cmd.Help() // it says what there is; the error follows
			return fmt.Errorf("unknown command: %s", strings.Join(args, " "))
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(runCommand(env), proxyCommand(env), caCommand(), versionCommand(env))
	return root
}
