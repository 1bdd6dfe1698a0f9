package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/redirect/apply"
)

func removeCommand() *cobra.Command {
	var where target
	var opt apply.RemoveOptions
	var state string
	cmd := &cobra.Command{
		Use:   "remove",
		Short: "Take capture out of a pod's namespace",
		Long: `Take capture out of a pod's namespace, from whatever state it is in. The old
values of the sysctls are put back when the state folder knows them.

While sockets of the proxy live there it refuses and says how many: with the rules
gone, what the application sends on those flows would leave in the clear.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ns, err := where.open()
			if err != nil {
				return err
			}
			defer ns.Close()
			gone, err := apply.Remove(ns, apply.StateDir(state), opt)
			if err != nil {
				return err
			}
			table := "no table"
			if gone.Table {
				table = "the table"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%v: removed %s, %d policy rules, %d routes; %d sysctls put back; %d sockets of the proxy reset\n",
				ns.ID(), table, gone.Rules, gone.Routes, gone.Sysctls, gone.Reset)
			return err
		},
	}
	where.addFlags(cmd)
	cmd.Flags().BoolVar(&opt.Force, "force", false, "reset the proxy's sockets where remove would refuse")
	addStateDir(cmd, &state)
	return cmd
}
