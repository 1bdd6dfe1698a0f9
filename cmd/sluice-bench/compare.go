package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/bench/report"
)

func compareCommand() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "compare BASE.json HEAD.json",
		Short: "Say what differs between two results, and whether it may be chance",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := tableFormat(format)
			if err != nil {
				return err
			}
			base, err1 := report.Read(args[0])
			head, err2 := report.Read(args[1])
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			return report.WriteComparison(cmd.OutOrStdout(), base, head, f)
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "text or markdown")
	return cmd
}

func tableFormat(text string) (report.Format, error) {
	switch f := report.Format(text); f {
	case report.Text, report.Markdown:
		return f, nil
	}
	return "", fmt.Errorf("--format %q; want %s or %s", text, report.Text, report.Markdown)
}
