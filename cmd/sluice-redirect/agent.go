package main

import (
	"log/slog"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/dataplane/zds"
	"github.com/sluice-mesh/sluice/redirect/agent"
)

func agentCommand() *cobra.Command {
	var cfg agent.Config
	var want intentFlags
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Enrol pods: program their namespaces and hand them to the proxy",
		Long: `Run in the host's network namespace and wait for two kinds of peers: proxies,
which are told of every pod and given its network namespace, and the commands
enroll, unenroll and list.

What is known of each pod is in a file of its own below the state folder. The agent
may end at any moment: rules and flows stay, and the next one goes on.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if cfg.Intent, err = want.get(cmd); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, sys.SIGTERM)
			defer stop()
			a, err := agent.New(cfg, slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
			if err != nil {
				return err
			}
			return a.Run(ctx)
		},
	}
	want.addFlags(cmd)
	fs := cmd.Flags()
	fs.StringVar(&cfg.ZDSSocket, "zds-socket", zds.DefaultSocket, "socket on which proxies are served")
	fs.DurationVar(&cfg.ProxyWait, "proxy-wait", 0, "how long an enrolment waits for a proxy to connect (default 5s)")
	addEnrollSocket(cmd, &cfg.EnrollSocket)
	addStateDir(cmd, &cfg.StateDir)
	return cmd
}

func addEnrollSocket(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "socket", agent.DefaultEnrollSocket, "enrolment socket of the agent")
}
