package node_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// shipped is a node's proxy and agent as programs.
type shipped struct {
	t      *testing.T
	node   *lab.Node
	sluice *lab.Process
	agent  *lab.Process
	args   []string
}

// startShipped serves all pods of a node with the programs, enrolled by the
// agent.
func startShipped(t *testing.T, set settings, n *lab.Node) *proxy {
	t.Helper()
	s := newShipped(t, set, n)
	for _, p := range n.Pods {
		s.enroll(p)
	}
	return s.proxy()
}

// newShipped starts both programs and waits until they are ready.
func newShipped(t *testing.T, set settings, n *lab.Node) *shipped {
	t.Helper()
	s := &shipped{t: t, node: n, args: set.flags()}
	s.startAgent()
	s.startSluice()
	return s
}

func (set settings) flags() []string {
	args := []string{"--loops", strconv.Itoa(set.loops), "--pipes", strconv.Itoa(set.pipes)}
	for _, f := range []struct{ flag, value string }{
		{"--idle-timeout", set.idle}, {"--half-close-timeout", set.halfClose}, {"--connect-timeout", set.connect},
		{"--source-ports", set.sourcePorts}, {"--drain", set.drain}, {"--pod-drain", set.podDrain},
	} {
		if f.value != "" {
			args = append(args, f.flag, f.value)
		}
	}
	if set.mesh {
		args = append(args, "--ca-dir", set.caDir, "--mesh-file", set.meshFile)
	}
	if set.generic {
		args = append(args, "--generic-cipher")
	}
	if set.noSplice {
		args = append(args, "--no-splice")
	}
	if set.noLog {
		args = append(args, "--access-log=false")
	}
	return args
}

func (s *shipped) zds() string     { return filepath.Join(s.node.Dir, "zds.sock") }
func (s *shipped) control() string { return filepath.Join(s.node.Dir, "enroll.sock") }

func (s *shipped) startAgent() {
	s.t.Helper()
	s.agent = lab.Start(s.t, s.node.Space, lab.Program{
		Name: "agent", Path: lab.Binary(s.t, "sluice-redirect"),
		Args: []string{"agent", "--zds-socket", s.zds(), "--socket", s.control(), "--state-dir", filepath.Join(s.node.Dir, "state")},
	})
	testkit.Eventually(s.t, patience, "the agent's socket", func() bool {
		_, err := os.Stat(s.control())
		return err == nil
	})
}

func (s *shipped) startSluice() {
	s.t.Helper()
	s.sluice = lab.Start(s.t, s.node.Space, lab.Program{
		Name: "sluice", Path: lab.Binary(s.t, "sluice"),
		Args: append([]string{"run", "--zds-socket", s.zds(), "--log-format", "json"}, s.args...),
	})
	testkit.Try(s.t, patience, "the proxy to be ready", func() error { return s.get(15021, "/healthz/ready", nil) })
}

// enroll has the agent capture a pod.
func (s *shipped) enroll(p *lab.Pod) {
	s.t.Helper()
	lab.Output(s.t, s.node.Space, lab.Binary(s.t, "sluice-redirect"), "enroll", "--socket", s.control(),
		"--netns", p.Path, "--name", p.Name, "--namespace", "lab", "--service-account", "default")
}

// get asks a port of the proxy, in its node's namespace, and hands each line of
// the answer to line.
func (s *shipped) get(port uint16, path string, line func(string)) error {
	return ask(s.node.Space, http.MethodGet, port, path, line)
}

func ask(in *lab.Space, method string, port uint16, path string, line func(string)) error {
	c := http.Client{
		Timeout: 5 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return in.Dial(ctx, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port), lab.Socket{})
		}},
	}
	req, err := http.NewRequest(method, fmt.Sprintf("http://proxy:%d%s", port, path), nil)
	if err != nil {
		return err
	}
	r, err := c.Do(req)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	text := bufio.NewScanner(r.Body)
	text.Buffer(nil, 1<<20)
	for text.Scan() {
		if line != nil {
			line(text.Text())
		}
	}
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, r.Status)
	}
	return text.Err()
}

// figure reads metrics and adds them up, in one scrape; absent is 0, as counters
// by label are until they move.
func (s *shipped) figure(names ...string) float64 {
	s.t.Helper()
	var sum float64
	err := s.get(15020, "/metrics", func(line string) {
		for _, name := range names {
			if rest, ok := strings.CutPrefix(line, name+" "); ok {
				v, err := strconv.ParseFloat(rest, 64)
				if err != nil {
					s.t.Errorf("metrics: %q: %v", line, err)
				}
				sum += v
			}
		}
	})
	if err != nil {
		s.t.Errorf("metrics: %v", err)
	}
	return sum
}

func (s *shipped) proxy() *proxy {
	return &proxy{
		shipped: s,
		count:   func(c metric.Counter) uint64 { return uint64(s.figure(c.Describe().Name)) },
		level:   func(g metric.Gauge) int64 { return int64(s.figure(g.Describe().Name)) },
		closed: func(r flow.CloseReason) uint64 {
			var names []string
			for p := range flow.Paths {
				names = append(names, fmt.Sprintf("sluice_flows_closed_total{path=%q,reason=%q}", p, r))
			}
			return uint64(s.figure(names...))
		},
	}
}
