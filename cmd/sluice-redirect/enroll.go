package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/redirect/agent"
)

// asking is what the commands that talk to the agent have in common.
type asking struct {
	req     agent.Request
	socket  string
	timeout time.Duration
}

func (a *asking) addFlags(cmd *cobra.Command) {
	addEnrollSocket(cmd, &a.socket)
	cmd.Flags().DurationVar(&a.timeout, "timeout", agent.DefaultTimeout, "how long the agent may take")
}

func (a *asking) prepare(op string) error {
	a.req.Op = op
	a.req.TimeoutMS = int(a.timeout / time.Millisecond)
	if a.req.TimeoutMS <= 0 {
		return fmt.Errorf("--timeout is %v; want at least 1ms", a.timeout)
	}
	return nil
}

func enrollCommand() *cobra.Command {
	var where target
	var ask asking
	cmd := &cobra.Command{
		Use:   "enroll",
		Short: "Have the agent capture a pod and hand it to the proxy",
		Long: `Have the agent capture a pod and hand it to the proxy. When this returns without
an error the proxy listens in the pod and everything new is captured; when it fails
nothing is left of it. To enrol a pod that is enrolled already changes nothing.`,
		Example: `  sluice-redirect enroll --netns web --name web --namespace shop --service-account front`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := ask.prepare(agent.OpEnroll); err != nil {
				return err
			}
			path, err := where.path()
			if err != nil {
				return err
			}
			if ask.req.Netns, err = filepath.Abs(path); err != nil {
				return err
			}
			ns, err := where.open() // by descriptor, too: the agent may see other files
			if err != nil {
				return err
			}
			defer ns.Close()
			got, err := agent.Ask(cmd.Context(), ask.socket, ask.req, ns.FD())
			if err != nil {
				return err
			}
			uid := ask.req.UID
			if uid == "" {
				uid = ask.req.Namespace + "/" + ask.req.Name
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s enrolled%s\n", uid, aside(got.Note))
			return nil
		},
	}
	where.addFlags(cmd)
	ask.addFlags(cmd)
	fs := cmd.Flags()
	fs.StringVar(&ask.req.UID, "uid", "", "of the pod (default NAMESPACE/NAME)")
	fs.StringVar(&ask.req.Name, "name", "", "of the workload")
	fs.StringVar(&ask.req.Namespace, "namespace", "", "of the workload")
	fs.StringVar(&ask.req.ServiceAccount, "service-account", "", "of the workload")
	fs.StringVar(&ask.req.Mode, "mode", "", "capture mode (default: the best that the proxy serves)")
	for _, name := range []string{"name", "namespace", "service-account"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // there is such a flag: it was added above
		}
	}
	return cmd
}

func aside(note string) string {
	if note == "" {
		return ""
	}
	return " (" + note + ")"
}
