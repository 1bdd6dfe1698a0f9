package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/bench/lab"
)

func labUpCommand(name *string) *cobra.Command {
	var (
		nodes, pods, hosts int
		noIPv6             []string
	)
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Build a lab that stays until `lab down`",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			topo, err := topology(nodes, pods, hosts, noIPv6)
			if err != nil {
				return err
			}
			l, err := lab.Build(*name, topo)
			if err != nil {
				return err
			}
			return printStatus(cmd.OutOrStdout(), *name, l)
		},
	}
	cmd.Flags().IntVar(&nodes, "nodes", 2, "nodes n1, n2, ...")
	cmd.Flags().IntVar(&pods, "pods", 2, "pods on each node, p1, p2, ... across all of them")
	cmd.Flags().IntVar(&hosts, "hosts", 1, "outside hosts h1, h2, ...")
	cmd.Flags().StringSliceVar(&noIPv6, "no-ipv6", nil, "pods in which IPv6 is switched off")
	return cmd
}

// topology is lab.Simple with IPv6 off in some pods.
func topology(nodes, pods, hosts int, noIPv6 []string) (lab.Topology, error) {
	if nodes < 0 || pods < 0 || hosts < 0 {
		return lab.Topology{}, fmt.Errorf("%d nodes, %d pods, %d hosts; want no negative number", nodes, pods, hosts)
	}
	topo := lab.Simple(nodes, pods, hosts)
	left := slices.Clone(noIPv6)
	for _, n := range topo.Nodes {
		for i := range n.Pods {
			if at := slices.Index(left, n.Pods[i].Name); at >= 0 {
				n.Pods[i].NoIPv6 = true
				left = slices.Delete(left, at, at+1)
			}
		}
	}
	if len(left) > 0 {
		return lab.Topology{}, fmt.Errorf("--no-ipv6 names %v; this lab has no such pod", left)
	}
	return topo, nil
}
