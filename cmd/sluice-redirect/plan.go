package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/redirect"
	"github.com/sluice-mesh/sluice/redirect/nft"
	"github.com/sluice-mesh/sluice/redirect/rt"
)

func planCommand() *cobra.Command {
	var want intentFlags
	var onlyNft, undo bool
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Print what apply would do, and touch nothing",
		Long: `Print what apply would do, as a shell script for the pod's namespace: sysctl
and ip lines, and the nf_tables table as text for nft. Nothing is touched.

  sluice-redirect plan | ip netns exec POD sh -e    does what apply does
  sluice-redirect plan --nft | nft -c -f -          checks the table's text`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, err := want.get(cmd)
			if err != nil {
				return err
			}
			p, err := redirect.NewPlan(in)
			if err != nil {
				return err
			}
			return printPlan(cmd.OutOrStdout(), p, onlyNft, undo)
		},
	}
	want.addFlags(cmd)
	cmd.Flags().BoolVar(&onlyNft, "nft", false, "print the table only, as text for nft -f")
	cmd.Flags().BoolVar(&undo, "undo", false, "print what remove would do instead")
	return cmd
}

func printPlan(w io.Writer, p redirect.Plan, onlyNft, undo bool) error {
	table := nft.Script(p.Table)
	if undo {
		table = nft.Undo(p.Table)
	}
	if onlyNft {
		_, err := io.WriteString(w, table)
		return err
	}
	here := fmt.Sprintf("nft -f - <<'EOF'\n%sEOF\n", table)
	if undo {
		_, err := fmt.Fprintf(w, `# Only when no socket of the proxy (mark %#x) is live in the namespace.
%s%s# The sysctls go back to the values that they had before: remove keeps them.
`, redirect.MarkProxy, here, rt.Undo(p))
		return err
	}
	_, err := fmt.Fprintf(w, `# Without IPv6 in the namespace (net.ipv6.conf.lo.disable_ipv6=1) the ip -6
# lines are left out. remove puts the old values of the sysctls back.
%s
# The proxy must listen by now: behind the next step nothing connects without it.
%s`, rt.Script(p), here)
	return err
}
