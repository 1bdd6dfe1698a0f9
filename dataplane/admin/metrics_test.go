package admin_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// families are the HELP and TYPE lines of a scrape, and its samples.
func families(text string) (heads, samples []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			heads = append(heads, line)
		} else {
			samples = append(samples, line)
		}
	}
	return heads, samples
}

// ours tells metrics that the proxy defines from those of the runtime's collectors.
func ours(line string) bool {
	line = strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE ")
	return !strings.HasPrefix(line, "go_") && !strings.HasPrefix(line, "process_")
}

func TestMetrics(t *testing.T) {
	c := serve(t, newModel(t))
	status, media, text := c.ask("GET", c.metrics+"/metrics")
	if status != 200 || media != "text/plain" {
		t.Fatalf("metrics: %d %s", status, media)
	}
	heads, samples := families(text)
	testkit.Golden(t, "metrics.golden", strings.Join(slices.DeleteFunc(slices.Concat(heads, samples), func(l string) bool { return !ours(l) }), "\n")+"\n")
	help, kind := map[string]string{}, map[string]string{}
	for _, h := range heads {
		f := strings.SplitN(h, " ", 4)
		if len(f) != 4 || f[3] == "" {
			t.Errorf("%q is empty", h)
			continue
		}
		map[string]map[string]string{"HELP": help, "TYPE": kind}[f[1]][f[2]] = f[3]
	}
	for _, s := range samples {
		name := s[:strings.IndexAny(s, "{ ")]
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			if kind[name] == "" {
				name = strings.TrimSuffix(name, part)
			}
		}
		if help[name] == "" || kind[name] == "" {
			t.Errorf("%s has the help %q and the type %q", name, help[name], kind[name])
		}
	}
	for _, name := range []string{"process_open_fds", "process_max_fds", "go_goroutines"} {
		if help[name] == "" {
			t.Errorf("no %s", name)
		}
	}
}

// The help of what may still change says so, that of the core metrics does not.
func TestUnstableMetrics(t *testing.T) {
	core := []string{"istio_build", "istio_tcp_connections_opened_total", "istio_tcp_connections_closed_total",
		"istio_tcp_received_bytes_total", "istio_tcp_sent_bytes_total"}
	c := serve(t, newModel(t))
	_, _, text := c.ask("GET", c.metrics+"/metrics")
	heads, _ := families(text)
	for _, h := range heads {
		f := strings.SplitN(h, " ", 4)
		if f[1] != "HELP" || !ours(h) {
			continue
		}
		if says := strings.Contains(f[3], "unstable"); says == slices.Contains(core, f[2]) {
			t.Errorf("%s: %q", f[2], f[3])
		}
	}
}

// Both addresses, and OpenMetrics for who asks.
func TestMetricsFormats(t *testing.T) {
	c := serve(t, newModel(t))
	for _, path := range []string{"/metrics", "/stats/prometheus"} {
		if status, _, text := c.ask("GET", c.metrics+path); status != 200 || !strings.Contains(text, "sluice_up_bytes_total 300\n") {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, _, text := c.ask("GET", c.metrics+"/"); status != 404 || text != "" {
		t.Errorf("/: %d %q; want 404 and nothing", status, text)
	}
}

// The copies of two loops are not of one moment: an end may be in one of them whose
// beginning is not in the other yet.
func TestSocketsNeverNegative(t *testing.T) {
	m := newModel(t)
	m.loops[1].Closed[flow.Inbound][flow.CloseEOF] = 7
	c := serve(t, m)
	if _, _, text := c.ask("GET", c.metrics+"/metrics"); !strings.Contains(text, "\nistio_tcp_sockets_open{reporter=\"destination\"} 0\n") {
		t.Error("more flows ended than began, and the difference is no 0")
	}
}
