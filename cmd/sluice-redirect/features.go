package main

import (
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/redirect/nft"
	"github.com/sluice-mesh/sluice/redirect/rt"
)

func featuresCommand() *cobra.Command {
	var names []string
	cmd := &cobra.Command{
		Use:   "features",
		Short: "Tell what the running kernel has of what capture needs",
		Long: `Tell what the running kernel has of what capture needs, by trying it: nf_tables
goes through the steps and takes them back, so nothing is left but loaded modules.
Ends with an error when something is missing.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			needed := slices.Concat(nft.Features(), []*sys.Feature{
				sys.FeatureTransparent4, sys.FeatureTransparent6, sys.FeatureMark, sys.FeatureBindNoPort,
			})
			wanted := []*sys.Feature{rt.FeatureReset(), sys.FeatureNamespaceCookie}
			for _, name := range names {
				needed = append(needed, expression(name))
			}
			out := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(out, "HAS\tNEEDED\tSINCE\tWHAT")
			var faults []error
			for _, f := range needed {
				err := f.Check()
				fmt.Fprintf(out, "%s\tyes\t%s\t%s\n", answer(err), f.Since, f.Name)
				faults = append(faults, err)
			}
			for _, f := range wanted {
				fmt.Fprintf(out, "%s\tno\t%s\t%s\n", answer(f.Check()), f.Since, f.Name)
			}
			return errors.Join(append(faults, out.Flush())...)
		},
	}
	cmd.Flags().StringSliceVar(&names, "expr", nil, "names of nf_tables expressions to ask for, too")
	return cmd
}

func answer(err error) string {
	switch {
	case err == nil:
		return "yes"
	case errors.Is(err, sys.ErrUnsupported):
		return "no"
	}
	return "?"
}

// expression asks for an nf_tables expression by its name.
func expression(name string) *sys.Feature {
	return sys.NewFeature(fmt.Sprintf("nf_tables expression %q", name), "", func() error {
		ns, err := netns.Current()
		if err != nil {
			return err
		}
		defer ns.Close()
		return nft.Probe(ns, name)
	})
}
