package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/redirect/agent"
)

func unenrollCommand() *cobra.Command {
	var ask asking
	cmd := &cobra.Command{
		Use:   "unenroll [UID]",
		Short: "Have the agent let go of a pod",
		Long: `Have the agent let go of a pod: the proxy closes its listeners there, then the
rules are taken away.

While flows of the proxy live in the pod it refuses and says how many: with the
rules gone, what the application sends on those flows would leave in the clear.`,
		Example: `  sluice-redirect unenroll shop/web`,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ask.prepare(agent.OpUnenroll); err != nil {
				return err
			}
			if (len(args) == 1) == (ask.req.UID != "") {
				return errors.New("say which pod: unenroll UID, or --uid UID; list shows them")
			}
			if len(args) == 1 {
				ask.req.UID = args[0]
			}
			got, err := agent.Ask(cmd.Context(), ask.socket, ask.req, nil)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s unenrolled%s\n", ask.req.UID, aside(got.Note))
			return nil
		},
	}
	ask.addFlags(cmd)
	cmd.Flags().StringVar(&ask.req.UID, "uid", "", "of the pod")
	cmd.Flags().BoolVar(&ask.req.Force, "force", false, "reset the proxy's sockets where unenroll would refuse")
	return cmd
}
