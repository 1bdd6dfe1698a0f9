package node_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/tools/wiretap/tap"
)

// TestLabHBONEWire has real programs of two nodes talk: nothing of what they say, no
// name and no certificate is readable between the nodes, both ends tell the same two
// identities, and the same talk without tunnels is readable, so that the tap is seen
// to work.
func TestLabHBONEWire(t *testing.T) {
	for _, mesh := range []bool{true, false} {
		t.Run(fmt.Sprintf("mesh %v", mesh), func(t *testing.T) {
			l := lab.New(t, lab.Simple(2, 1, 0))
			set := settings{loops: 2, mesh: mesh}
			if mesh {
				set.caDir, set.meshFile = inMesh(t, l)
			}
			var nodes []*proxy
			for _, n := range l.Nodes {
				nodes = append(nodes, startShipped(t, set, n))
			}
			from, to := l.Nodes[0].Pods[0].Space, l.Nodes[1].Pods[0].Space
			dir := t.TempDir()
			text := secretText()
			if err := os.WriteFile(filepath.Join(dir, "secret"), text, 0o644); err != nil {
				t.Fatal(err)
			}
			// HTTP, bulk, and a server that speaks first.
			lab.Start(t, to, lab.Program{Path: "socat", Args: []string{"TCP6-LISTEN:7001,ipv6only=0,fork,reuseaddr", "SYSTEM:cat " + filepath.Join(dir, "secret")}})
			lab.Start(t, to, lab.Program{Path: "iperf3", Args: []string{"-s", "-p", "7002", "--forceflush"}})
			waitListening(t, to, 7001, 7002)
			tp, err := tap.Open(l.Trunk.Handle(), tap.Config{Interface: "t-" + l.Nodes[0].Name})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := tp.Close(); err != nil {
					t.Error(err)
				}
			})
			for _, at := range []string{to.At4(7001).String(), to.At6(7001).String()} {
				if got := lab.Output(t, from, "socat", "-u", "TCP:"+at, "-"); got != strings.TrimSpace(string(text)) && got != string(text) {
					t.Errorf("%d bytes came from %s; want %d", len(got), at, len(text))
				}
			}
			lab.Output(t, from, "iperf3", "-c", to.At4(7002).Addr().String(), "-p", "7002", "-n", "8M")
			capture, err := tp.Stop()
			if err != nil {
				t.Fatal(err)
			}
			report, err := capture.Judge(tap.Rules{Secrets: []tap.Secret{
				{Name: "what the server says", Bytes: text}, {Name: "SPIFFE names", Bytes: []byte("spiffe://")},
			}})
			if err != nil {
				t.Fatal(err)
			}
			if !mesh {
				if report.Err() == nil || report.Secrets[0].Finds == 0 {
					t.Error("without tunnels nothing is readable: the tap sees nothing")
				}
				return
			}
			if err := report.Err(); err != nil {
				t.Error(err)
			}
			for _, c := range report.Connections {
				if c.Hello == nil || c.Hello.ServerName != nil || c.Version != "TLS 1.3" {
					t.Errorf("%s to %s: %s, hello %+v; want TLS 1.3 without a server name", c.Client, c.Server, c.Version, c.Hello)
				}
			}
			who := `"src.identity":"spiffe://cluster.local/ns/lab/sa/default"`
			whom := `"dst.identity":"spiffe://cluster.local/ns/lab/sa/default"`
			for i, n := range nodes {
				eventually(t, fmt.Sprintf("node %d to tell both identities", i+1), func() bool {
					return n.shipped.sluice.Logged(who) && n.shipped.sluice.Logged(whom)
				})
			}
		})
	}
}

// secretText is long, and no part of it comes again.
func secretText() []byte {
	rng := rand.New(rand.NewPCG(7, 9))
	var b []byte
	for len(b) < 200_000 {
		b = fmt.Appendf(b, "%016x %016x\n", rng.Uint64(), rng.Uint64())
	}
	return b
}

// waitListening waits until somebody listens on the ports.
func waitListening(t *testing.T, in *lab.Space, ports ...int) {
	t.Helper()
	for _, port := range ports {
		testkit.Eventually(t, patience, fmt.Sprintf("a listener on port %d", port), func() bool {
			return strings.Contains(lab.Output(t, in, "ss", "-Hltn", fmt.Sprintf("sport = :%d", port)), "LISTEN")
		})
	}
}
