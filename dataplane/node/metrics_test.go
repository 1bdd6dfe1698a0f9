package node_test

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/logs"
	"github.com/sluice-mesh/sluice/dataplane/node"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// Every metric of a running node is in docs/operating.md with its labels, and
// nothing else is.
func TestMetricsAreDocumented(t *testing.T) {
	testkit.NoLeaks(t)
	levels, err := logs.ParseLevels("off")
	if err != nil {
		t.Fatal(err)
	}
	cfg := node.Config{Loops: 1, Flows: logs.New(io.Discard, logs.Plain, levels), Log: slog.New(slog.DiscardHandler)}
	cfg.Session.Log = true
	cfg.Admin.Metrics = "127.0.0.1:0"
	cfg.Pods.Socket = filepath.Join(t.TempDir(), "nobody.sock")
	cfg.Pods.BackoffMin, cfg.Pods.BackoffMax = time.Hour, time.Hour
	n, err := node.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	got := scrape(t, "http://"+n.Addr("metrics")+"/metrics")
	cancel()
	if err := testkit.Receive(t, testkit.Wait, "the end of the node", done); err != nil {
		t.Error(err)
	}

	const traffic = "connection_security_policy reporter request_protocol response_flags"
	want := map[string]string{}
	for _, row := range testkit.Table(t, "../../docs/operating.md", "## Metrics") {
		labels := testkit.Code(row[1])
		slices.Sort(labels)
		want[testkit.Code(row[0])[0]] = strings.Join(labels, " ")
		if row[1] == "traffic" {
			want[testkit.Code(row[0])[0]] = traffic
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if labels, ok := want[name]; !ok || labels != got[name] {
			t.Errorf("%s has labels %q; the page: %v, %q", name, got[name], ok, labels)
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			t.Errorf("the page has %s; there is no such metric", name)
		}
	}
}

// scrape returns the metrics that are not of the runtime or the process, with the
// names of their labels.
func scrape(t *testing.T, url string) map[string]string {
	t.Helper()
	c := http.Client{Timeout: testkit.Wait, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	label := regexp.MustCompile(`([a-z_]+)="`)
	found := map[string]string{}
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "#") || strings.HasPrefix(line, "go_") || strings.HasPrefix(line, "process_") {
			continue
		}
		name, rest, _ := strings.Cut(strings.Fields(line)[0], "{")
		var labels []string
		for _, l := range label.FindAllStringSubmatch(rest, -1) {
			labels = append(labels, l[1])
		}
		found[name] = strings.Join(labels, " ")
	}
	return found
}
