package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/redirect/agent"
)

func listCommand() *cobra.Command {
	var ask asking
	var asJSON, counters bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the pods that the agent knows",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := ask.prepare(agent.OpList); err != nil {
				return err
			}
			got, err := agent.Ask(cmd.Context(), ask.socket, ask.req, nil)
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(struct {
					Pods     []agent.Status `json:"pods"`
					Counters agent.Stats    `json:"counters"`
				}{append([]agent.Status{}, got.Pods...), got.Stats})
			}
			return printPods(cmd.OutOrStdout(), got, counters)
		},
	}
	ask.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, with the agent's counters")
	cmd.Flags().BoolVar(&counters, "counters", false, "print the agent's counters, too")
	return cmd
}

func printPods(w io.Writer, a agent.Answer, counters bool) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "UID\tNETNS\tMODE\tPHASE\tACKED\tLAST ERROR")
	for _, p := range a.Pods {
		acked := "no"
		if p.Acked {
			acked = "yes"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", p.UID, p.Netns, p.Mode, p.Phase, acked, cmp.Or(p.LastError, "-"))
	}
	if counters {
		s := a.Stats
		fmt.Fprintf(t, "\nenrolled %d, failed %d, unenrolled %d, retried %d, dropped %d, requests refused %d\n",
			s.Enrolled, s.Failed, s.Unenrolled, s.Retried, s.Dropped, s.Refused)
		fmt.Fprintf(t, "proxies connected %d, served %d, refused %d, dropped %d; answers missing %d, negative %d; accepts failed %d\n",
			s.Links, s.Synced, s.LinksRefused, s.LinkErrors, s.AskTimeouts, s.Nacks, s.AcceptErrors)
	}
	return t.Flush()
}
