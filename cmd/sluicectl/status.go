package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func statusCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "status", Short: "Say in a few lines how a running proxy is", Args: cobra.NoArgs}
	admin := adminFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var (
			d    dump
			live struct {
				Loops []struct {
					Loop     int
					Answered bool
					Gauges   map[string]int64
				}
			}
		)
		// The loops come first: they are told also when one hangs, which fails
		// the other page.
		if err := askJSON(cmd.Context(), *admin, "/loops", &live); err != nil {
			return err
		}
		flows := int64(0)
		for _, l := range live.Loops {
			if !l.Answered {
				return fmt.Errorf("loop %d does not answer; /debug/pprof/goroutine?debug=2 of %s shows where it is", l.Loop, *admin)
			}
			flows += l.Gauges["sluice_flows_open"]
		}
		if err := askJSON(cmd.Context(), *admin, "/config_dump", &d); err != nil {
			return err
		}
		states := map[string]int{}
		for _, p := range d.Pods {
			states[p.State]++
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "build  %s %s\nloops  %d, all answer\nflows  %d open\npods   %d up, %d pending, %d draining\n",
			d.Version.Version, d.Version.GitRevision, len(live.Loops), flows, states["Up"], states["Pending"], states["Draining"])
		return err
	}
	return cmd
}
