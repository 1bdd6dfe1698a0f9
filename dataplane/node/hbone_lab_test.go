package node_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/identity"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// inMesh gives the nodes of l a certificate authority and a file that says that all
// pods take tunnels.
func inMesh(t *testing.T, l *lab.Lab) (caDir, file string) {
	t.Helper()
	dir := t.TempDir()
	caDir, file = filepath.Join(dir, "ca"), filepath.Join(dir, "mesh.yaml")
	ca, err := identity.NewCA("cluster.local", 0, time.Now())
	if err == nil {
		err = ca.Save(caDir)
	}
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("workloads:\n")
	for _, n := range l.Nodes {
		for _, p := range n.Pods {
			fmt.Fprintf(&b, "- uid: lab//Pod/lab/%s\n  name: %[1]s\n  namespace: lab\n  serviceAccount: default\n  trustDomain: cluster.local\n", p.Name)
			fmt.Fprintf(&b, "  node: %s\n  workloadIps: [%q, %q]\n  protocol: HBONE\n  services: {}\n", n.Name, p.At4(1).Addr(), p.At6(1).Addr())
		}
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return caDir, file
}

// Bytes go through a tunnel as they are, both ways at once, on IPv4 and IPv6.
func TestLabHBONEHashes(t *testing.T) {
	withMesh(t, lab.Simple(2, 1, 0), settings{loops: 2}, func(t *testing.T, l *lab.Lab, p []*proxy) {
		from, to := l.Nodes[0].Pods[0].Space, l.Nodes[1].Pods[0].Space
		for _, at := range []netip.AddrPort{to.At4(7000), to.At6(7000)} {
			hashes(t, from, to, at, 16<<20)
		}
		if got := p[0].count(metric.Streams); got != 2 {
			t.Errorf("%d streams were opened for 2 connections", got)
		}
		if p[0].count(metric.Handshakes) == 0 || p[1].count(metric.Handshakes) == 0 {
			t.Error("nobody shook hands")
		}
	})
}

// withMesh is withProxies for nodes in one mesh.
func withMesh(t *testing.T, want lab.Topology, set settings, test func(t *testing.T, l *lab.Lab, p []*proxy)) {
	set.mesh = true
	withProxies(t, want, set, test)
}

// Many short connections at once go through one tunnel, none of them slow.
func TestLabHBONEChurn(t *testing.T) {
	withMesh(t, lab.Simple(2, 1, 0), settings{loops: 2, noLog: true, shippedOnly: true}, func(t *testing.T, l *lab.Lab, p []*proxy) {
		from, to := l.Nodes[0].Pods[0].Space, l.Nodes[1].Pods[0].Space
		greet(t, to, to.At4(7000))
		end := time.Now().Add(testkit.Scaled(3*time.Second, 30*time.Second))
		var wg sync.WaitGroup
		var sum atomic.Int64
		for range 32 {
			wg.Go(func() {
				for time.Now().Before(end) {
					c, err := dialGreeted(from, lab.Socket{}, to.At4(7000), patience)
					if err != nil {
						t.Errorf("after %d connections of all: %v", sum.Load(), err)
						return
					}
					sum.Add(1)
					if err := c.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		t.Logf("%d connections", sum.Load())
		if sum.Load() < 500 {
			t.Errorf("only %d connections: that is no churn", sum.Load())
		}
		if n := p[0].count(metric.Tunnels); n != 1 {
			t.Errorf("%d tunnels were dialled for one peer; want 1", n)
		}
	})
}

// What is no client of the mesh gets nowhere on port 15008, is counted, and named in
// the log; and who is, gets in beside it.
func TestLabHBONERefuses(t *testing.T) {
	withMesh(t, lab.Simple(2, 1, 1), settings{loops: 2, shippedOnly: true}, func(t *testing.T, l *lab.Lab, p []*proxy) {
		from, to, host := l.Nodes[0].Pods[0].Space, l.Nodes[1].Pods[0].Space, l.Hosts[0].Space
		greet(t, to, to.At4(7000))
		stranger, err := identity.NewCA("cluster.local", 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		foreign, err := identity.NewCA("elsewhere.test", 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			name string
			say  func(c net.Conn) error
		}{
			{"plaintext", func(c net.Conn) error { _, err := c.Write([]byte("GET / HTTP/1.1\r\n\r\n")); return err }},
			{"garbage", func(c net.Conn) error { _, err := c.Write(bytes.Repeat([]byte{0x16, 3, 1, 0xff}, 9000)); return err }},
			{"another root", as(stranger, "cluster.local")},
			{"another trust domain", as(foreign, "elsewhere.test")},
			{"no certificate", func(c net.Conn) error {
				return shake(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
			}},
		} {
			t.Run(tt.name, func(t *testing.T) {
				already := refusals(p[1])
				failures := p[1].count(metric.HandshakeFailures)
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				c, err := host.Dial(ctx, to.At4(15008), lab.Socket{})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
					t.Fatal(err)
				}
				if err := tt.say(c); err != nil {
					t.Logf("the other side says: %v", err)
				}
				if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error("the connection stays open")
				}
				eventually(t, "the failure to be counted", func() bool { return p[1].count(metric.HandshakeFailures) == failures+1 })
				eventually(t, "the refusal to be logged", func() bool {
					return refusals(p[1]) == already+1
				})
			})
		}
		c, err := dialGreeted(from, lab.Socket{}, to.At4(7000), patience)
		if err != nil {
			t.Errorf("a pod of the mesh: %v", err)
		} else if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// refusals are the log lines of handshakes that failed.
func refusals(p *proxy) int {
	return strings.Count(p.shipped.sluice.Log(), `"path":"inbound_hbone","verdict":"deny","reason":"handshake"`)
}

// as shakes hands as a workload of a CA and a trust domain.
func as(ca *identity.CA, domain string) func(net.Conn) error {
	return func(c net.Conn) error {
		cert, err := ca.Issue(identity.ID{TrustDomain: domain, Namespace: "lab", ServiceAccount: "default"}, 0, nil)
		if err != nil {
			return err
		}
		cfg := cert.Client(nil).Clone()
		cfg.VerifyConnection = nil
		return shake(c, cfg)
	}
}

func shake(c net.Conn, cfg *tls.Config) error {
	s := tls.Client(c, cfg)
	if err := s.Handshake(); err != nil {
		return err
	}
	_, err := s.Read(make([]byte, 1)) // TLS 1.3 tells a client only now that it is refused
	return err
}
