package node_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/dial"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/node"
)

// A proxy serves the pods of one lab node. It is a node in this process, or the
// shipped programs; tests of what flows do run with both.
type proxy struct {
	count  func(metric.Counter) uint64
	level  func(metric.Gauge) int64
	closed func(flow.CloseReason) uint64 // on all paths

	shipped *shipped // nil for a node in this process
}

// settings are what a test changes of a proxy.
type settings struct {
	loops     int
	noSplice  bool
	pipes     int // 0 means the default, negative none
	idle      string
	halfClose string
	connect   string

	sourcePorts     string // such as 16384-32767
	drain, podDrain string
	noLog           bool // of the shipped program; in this process there is none
	shippedOnly     bool // for long tests

	mesh            bool // all pods take tunnels
	caDir, meshFile string
	generic         bool // cipher
}

// withProxies runs a test once with a node in this process and once with the
// shipped programs, each over a lab of its own.
func withProxies(t *testing.T, want lab.Topology, set settings, test func(t *testing.T, l *lab.Lab, p []*proxy)) {
	for _, kind := range []struct {
		name  string
		start func(*testing.T, settings, *lab.Node) *proxy
	}{
		{"in-process", startInProcess},
		{"shipped", startShipped},
	} {
		if set.shippedOnly && kind.name != "shipped" {
			continue
		}
		t.Run(kind.name, func(t *testing.T) {
			l := lab.New(t, want)
			if set.mesh {
				set.caDir, set.meshFile = inMesh(t, l)
			}
			var all []*proxy
			for _, n := range l.Nodes {
				all = append(all, kind.start(t, set, n))
			}
			test(t, l, all)
		})
	}
}

// startInProcess serves all pods of a node from this process.
func startInProcess(t *testing.T, set settings, n *lab.Node) *proxy {
	t.Helper()
	cfg := node.Config{Loops: set.loops, Mesh: node.Mesh{CADir: set.caDir, File: set.meshFile, GenericCipher: set.generic}}
	cfg.Session.Relay.NoSplice = set.noSplice
	cfg.Pipes.Pipes = set.pipes
	cfg.Session.Relay.Idle = duration(t, set.idle)
	cfg.Session.Relay.HalfClose = duration(t, set.halfClose)
	cfg.Session.Patience = duration(t, set.connect)
	if set.sourcePorts != "" {
		for part := range strings.SplitSeq(set.sourcePorts, ",") {
			var r dial.Range
			if _, err := fmt.Sscanf(part, "%d-%d", &r.First, &r.Last); err != nil {
				t.Fatal(err)
			}
			cfg.Session.Ports = append(cfg.Session.Ports, r)
		}
	}
	run := inProcess(t, cfg, n.Pods...)
	read := func() metric.Set {
		set, err := run.Metrics()
		if err != nil {
			t.Error(err)
		}
		return set
	}
	return &proxy{
		count: func(c metric.Counter) uint64 { s := read(); return s.Count(c) },
		level: func(g metric.Gauge) int64 { s := read(); return s.Level(g) },
		closed: func(r flow.CloseReason) uint64 {
			s := read()
			n := uint64(0)
			for p := range flow.Paths {
				n += s.Closed[p][r]
			}
			return n
		},
	}
}

// duration reads a setting; "" is 0.
func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
