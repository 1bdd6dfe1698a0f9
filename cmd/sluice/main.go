// Command sluice is the proxy of a node. `sluice run` serves; it also answers to
// the command line of the mesh's own proxy, so that it can take its place.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// version is set by the linker; a build from a checkout says what it is from.
var version = ""

func main() {
	if err := command().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "sluice:", err)
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "sluice",
		Short:         "The proxy of a node: carries the TCP traffic of its pods",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				_ = cmd.Help() // it says what there is; the error follows
				return fmt.Errorf("unknown command: %s", args[0])
			}
			return cmd.Usage()
		},
	}
	root.AddCommand(runCommand(), proxyCommand(), &cobra.Command{
		Use:   "version",
		Short: "Print what was built",
		Args:  cobra.NoArgs,
		Run:   func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), "sluice", buildVersion()) },
	})
	if len(os.Args) == 1 { // as the mesh's proxy: no argument runs
		root.SetArgs([]string{"proxy"})
	}
	return root
}

// buildVersion is the linked version, else the module's and its revision.
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	var v strings.Builder
	v.WriteString(info.Main.Version)
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.WriteString(" " + s.Value)
		}
	}
	return v.String() + " " + info.GoVersion
}
