package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/redirect"
)

// intentFlags say what is wanted for a pod, each by itself or all in one text.
type intentFlags struct {
	intent redirect.Intent
	file   string
}

func (f *intentFlags) addFlags(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.TextVar(&f.intent.Mode, "mode", redirect.ModeDirect, "capture mode")
	fs.BoolVar(&f.intent.DNS, "dns", false, "capture the pod's DNS queries, too")
	fs.TextVar(&f.intent.Probe4, "probe4", redirect.DefaultProbe4(), "where the node's health probes come from, IPv4")
	fs.TextVar(&f.intent.Probe6, "probe6", redirect.DefaultProbe6(), "where the node's health probes come from, IPv6")
	fs.StringSliceVar(&f.intent.Require, "require", nil, "nf_tables expressions that the kernel must have besides those of the rules")
	fs.StringVar(&f.file, "intent", "", "file with all of this as JSON, - for standard input; instead of the flags")
	for _, name := range []string{"mode", "dns", "probe4", "probe6", "require"} {
		cmd.MarkFlagsMutuallyExclusive("intent", name)
	}
}

// get reads the intent.
func (f *intentFlags) get(cmd *cobra.Command) (redirect.Intent, error) {
	if f.file == "" {
		return f.intent, nil
	}
	var text []byte
	var err error
	if f.file == "-" {
		text, err = io.ReadAll(cmd.InOrStdin())
	} else {
		text, err = os.ReadFile(f.file)
	}
	if err != nil {
		return redirect.Intent{}, fmt.Errorf("intent: %w", err)
	}
	return redirect.ParseIntent(text)
}
