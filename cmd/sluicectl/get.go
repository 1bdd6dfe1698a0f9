package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// adminLimit bounds one question; a proxy gives its loops 2 s to answer.
const adminLimit = 5 * time.Second

func getCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "get", Short: "Print what a running proxy has"}
	admin := adminFlag(cmd)
	cmd.AddCommand(&cobra.Command{
		Use: "flows", Short: "Live flows", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			table, err := ask(cmd.Context(), *admin, "/flows")
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(table)
			return err
		},
	}, &cobra.Command{
		Use: "pods", Short: "The pods that it serves", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var d dump
			if err := askJSON(cmd.Context(), *admin, "/config_dump", &d); err != nil {
				return err
			}
			return d.printPods(cmd.OutOrStdout())
		},
	})
	return cmd
}

func adminFlag(cmd *cobra.Command) *string {
	return cmd.PersistentFlags().String("admin", "localhost:15000", "HOST:PORT of the proxy's admin port")
}

// ask returns a page of the proxy that answers at admin.
func ask(ctx context.Context, admin, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, adminLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+path, nil)
	if err != nil {
		return nil, fmt.Errorf("--admin %s: %w", admin, err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // straight, whatever the environment says
	r, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("no proxy answers (--admin chooses another one): %w", err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s", r.Status, strings.TrimSpace(string(body)))
	}
	if err != nil {
		return nil, fmt.Errorf("the proxy's %s: %w", path, err)
	}
	return body, nil
}

func askJSON(ctx context.Context, admin, path string, v any) error {
	body, err := ask(ctx, admin, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("the answer to %s is not that of a proxy: %w", path, err)
	}
	return nil
}

// dump is what we read of a proxy's config_dump.
type dump struct {
	Version struct{ Version, GitRevision string }
	Pods    map[string]struct { // by uid
		State, Since, Netns, LastError string
		Info                           struct{ Name, Namespace string }
		Connections                    struct{ Inbound, Outbound []any }
	} `json:"workloadState"`
}

// printPods writes a table of the pods, by namespace and name.
func (d dump) printPods(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "POD\tSTATE\tSINCE\tOUT\tIN\tNETNS\tUID\tERROR")
	for _, uid := range slices.SortedFunc(maps.Keys(d.Pods), func(a, b string) int {
		x, y := d.Pods[a].Info, d.Pods[b].Info
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name), cmp.Compare(a, b))
	}) {
		p := d.Pods[uid]
		fmt.Fprintf(t, "%s/%s\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", p.Info.Namespace, p.Info.Name, p.State, p.Since,
			len(p.Connections.Outbound), len(p.Connections.Inbound), p.Netns, uid, cmp.Or(p.LastError, "-"))
	}
	return t.Flush()
}
