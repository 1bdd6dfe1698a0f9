package main

import (
	"encoding/json"
	"errors"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/bench/report"
)

func reportCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "report RESULT.json...",
		Short: "Show results again: several files of one machine become one",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			run, err := report.Read(args[0])
			if err != nil {
				return err
			}
			for _, path := range args[1:] {
				more, err := report.Read(path)
				if err != nil {
					return err
				}
				run.Merge(more)
			}
			w := cmd.OutOrStdout()
			switch format {
			case "bench":
				return run.BenchText(w)
			case "json":
				enc := json.NewEncoder(w)
				enc.SetIndent("", " ")
				return enc.Encode(run)
			}
			f, err := tableFormat(format)
			if err != nil {
				return errors.New("--format is " + format + "; want text, markdown, json, or bench for benchstat")
			}
			return errors.Join(run.Tables(w, f), run.CallTables(w, f))
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "text, markdown, json, or bench for benchstat")
	return cmd
}
