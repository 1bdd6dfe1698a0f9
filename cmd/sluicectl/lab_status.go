package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/bench/lab"
)

func labStatusCommand(name *string) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show a lab's members, their addresses and what runs in them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := lab.Open(*name)
			if errors.Is(err, fs.ErrNotExist) {
				return errors.Join(err, standing())
			} else if err != nil {
				return err
			}
			return printStatus(cmd.OutOrStdout(), *name, l)
		},
	}
}

// standing names the labs that are up, as a hint.
func standing() error {
	labs, err := lab.Standing()
	switch {
	case err != nil:
		return err
	case len(labs) == 0:
		return errors.New("no lab is up; sluicectl lab up builds one")
	}
	return fmt.Errorf("labs that are up: %s", strings.Join(slices.Sorted(maps.Keys(labs)), ", "))
}

// printStatus writes a table of the members and a hint.
func printStatus(out io.Writer, name string, l *lab.Lab) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tIS\tIPV4\tIPV6\tNAMESPACE\tRUNS")
	row := func(s *lab.Space, is string) error {
		running, err := s.Running()
		if err != nil {
			return err
		}
		var runs []string
		for _, r := range running {
			program, _, _ := strings.Cut(r.Command, " ")
			runs = append(runs, fmt.Sprintf("%s (%d)", program, r.PID))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Name, is, addresses(s.Addr4, s.Second4), addresses(s.Addr6, s.Second6), s.Netns, strings.Join(runs, ", "))
		return nil
	}
	var faults []error
	for _, n := range l.Nodes {
		faults = append(faults, row(n.Space, "node"))
		for _, p := range n.Pods {
			faults = append(faults, row(p.Space, "pod on "+n.Name))
		}
	}
	for _, h := range l.Hosts {
		faults = append(faults, row(h.Space, "outside host"))
	}
	faults = append(faults, w.Flush())
	option := ""
	if name != defaultLab {
		option = " --name " + name
	}
	fmt.Fprintf(out, "\nTry: sluicectl lab%s exec %s -- ip addr\n", option, l.Spaces()[0].Name)
	return errors.Join(faults...)
}

func addresses(list ...netip.Addr) string {
	var text []string
	for _, a := range list {
		if a.IsValid() {
			text = append(text, a.String())
		}
	}
	if len(text) == 0 {
		return "-"
	}
	return strings.Join(text, " ")
}
