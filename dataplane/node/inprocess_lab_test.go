package node_test

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/node"
	"github.com/sluice-mesh/sluice/dataplane/pods"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/redirect"
	"github.com/sluice-mesh/sluice/redirect/apply"
)

// inProcess runs a node in this process that serves the lab's pods, which are
// captured. It ends with the test.
func inProcess(t *testing.T, cfg node.Config, served ...*lab.Pod) *node.Node {
	t.Helper()
	return inProcessBehind(t, captureDirect, cfg, served...)
}

// captureDirect puts the rules of mode direct into a pod.
func captureDirect(t *testing.T, p *lab.Pod) {
	t.Helper()
	if _, err := apply.Apply(p.Handle(), redirect.Intent{}, apply.StateDir(t.TempDir())); err != nil {
		t.Fatal(err)
	}
}

// inProcessBehind is inProcess with other rules: capture puts them into a pod
// that is being served.
func inProcessBehind(t *testing.T, capture func(*testing.T, *lab.Pod), cfg node.Config, served ...*lab.Pod) *node.Node {
	t.Helper()
	cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	cfg.Pods.Socket = filepath.Join(t.TempDir(), "nobody.sock")
	cfg.Pods.BackoffMin, cfg.Pods.BackoffMax = time.Hour, time.Hour // no agent in these tests
	n, err := node.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	var running []pods.Running
	t.Cleanup(func() {
		for _, r := range running {
			r.Drain(0)
			testkit.Within(t, 5*time.Second, "the end of a pod", func() error { <-r.Done(); return nil })
		}
		cancel()
		if err := testkit.Receive(t, 10*time.Second, "the end of the node", ended); err != nil {
			t.Errorf("node: %v", err)
		}
	})
	for _, p := range served {
		ns, err := netns.Open(p.Path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := n.Start(ctx, pods.Pod{UID: p.Name, Name: p.Name, Namespace: "lab", ServiceAccount: "default"}, ns)
		if err != nil {
			t.Fatal(err)
		}
		running = append(running, r)
		capture(t, p)
	}
	return n
}
