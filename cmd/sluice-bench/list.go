package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/bench/scenario"
)

func listCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List scenarios, paths and subjects",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(w, "SCENARIO\tQUICK\t")
			for _, s := range scenario.All() {
				fmt.Fprintf(w, "%s\t%s\t%s\n", s.Name, tick(s.Quick), s.Note)
			}
			fmt.Fprintln(w, "\nPATH\tQUICK\t")
			for _, p := range scenario.Paths() {
				fmt.Fprintf(w, "%s\t%s\t%s\n", p.Name, tick(p.Quick), p.Note)
			}
			fmt.Fprintln(w, "\nSUBJECT\tMODES\t")
			all, err := builtinSubjects()
			if err != nil {
				return err
			}
			for _, s := range all {
				var modes strings.Builder
				for _, m := range allModes() {
					if s.Serves(m) {
						modes.WriteString(m + " ")
					}
				}
				note := s.Note()
				if err := s.Check(); err != nil {
					note += " [missing: " + err.Error() + "]"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\n", s.Name(), modes.String(), note)
			}
			return w.Flush()
		},
	}
}

func tick(on bool) string {
	if on {
		return "yes"
	}
	return ""
}
