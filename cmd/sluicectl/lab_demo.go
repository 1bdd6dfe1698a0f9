package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/bench/lab"
)

// labDemoCommand shows the proxy at work with real programs.
func labDemoCommand(name *string) *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Let real programs talk through the proxy, and say what each side saw",
		Long: "One node, three pods of which two are enrolled, and an outside host. nginx, curl,\n" +
			"iperf3 and socat talk over every path; each row says which source address the\n" +
			"server saw, which way the flow took and what carried it.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, lab.SIGTERM)
			defer stop()
			label := ""
			if keep {
				label = *name
			}
			return demonstrate(ctx, cmd.OutOrStdout(), label)
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the lab up, and say what to try")
	return cmd
}

// demonstrate builds the lab, runs every flow, and fails if one was not carried
// as it should be. With a name the lab stays.
func demonstrate(ctx context.Context, out io.Writer, name string) (err error) {
	if err := programsThere(); err != nil {
		return err
	}
	topology := lab.Simple(1, 3, 1)
	l, err := lab.Build(name, topology)
	if err != nil {
		return err
	}
	d := &demo{ctx: ctx, out: out, lab: l, node: l.Nodes[0]}
	defer func() {
		if err != nil || name == "" {
			if err != nil {
				d.tails(os.Stderr)
			}
			err = errors.Join(err, l.Close())
		}
	}()
	fmt.Fprintf(out, "lab: node %s, pods p1 and p2 (enrolled) and p3 (not), outside host h1\n", d.node.Name)
	if err := d.start(); err != nil {
		return err
	}
	if err := d.serve(); err != nil {
		return err
	}
	if err := d.flows(); err != nil {
		return err
	}
	if err := d.untracked(); err != nil {
		return err
	}
	fmt.Fprintln(out, "demo: ok")
	if name != "" {
		d.hints(name)
	}
	return nil
}

// demo is a lab in which the shipped programs run.
type demo struct {
	ctx    context.Context
	out    io.Writer
	lab    *lab.Lab
	node   *lab.Node
	sluice *lab.Process
	procs  []*lab.Process
	iperf  map[*lab.Space]*lab.Process
	read   int // how much of the access log was looked at
}

// programsThere names what has to be installed.
func programsThere() error {
	var faults []error
	for _, p := range [][2]string{{"nginx", "nginx-light"}, {"curl", "curl"}, {"iperf3", "iperf3"}, {"socat", "socat"}} {
		if _, err := exec.LookPath(p[0]); err != nil {
			faults = append(faults, fmt.Errorf("the demo needs %s: apt-get install %s", p[0], p[1]))
		}
	}
	return errors.Join(faults...)
}

// program finds one of ours: in SLUICE_BIN, or beside this one.
func program(name string) (string, error) {
	dir := os.Getenv("SLUICE_BIN")
	if dir == "" {
		self, err := os.Executable()
		if err != nil {
			return "", err
		}
		dir = filepath.Dir(self)
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w; run make build, or set SLUICE_BIN", err)
	}
	return path, nil
}

func (d *demo) path(name string) string { return filepath.Join(d.node.Dir, name) }

// start runs the agent and the proxy on the node and enrols two pods.
func (d *demo) start() error {
	redirect, err := program("sluice-redirect")
	if err != nil {
		return err
	}
	proxy, err := program("sluice")
	if err != nil {
		return err
	}
	if _, err := d.run(d.node.Space, lab.Program{Name: "agent", Path: redirect, Args: []string{"agent",
		"--zds-socket", d.path("zds.sock"), "--socket", d.path("enroll.sock"), "--state-dir", d.path("state")}}); err != nil {
		return err
	}
	if err := d.until("the agent's socket", func() error { _, err := os.Stat(d.path("enroll.sock")); return err }); err != nil {
		return err
	}
	if d.sluice, err = d.run(d.node.Space, lab.Program{Path: proxy, Args: []string{"run",
		"--zds-socket", d.path("zds.sock"), "--log-format", "json"}}); err != nil {
		return err
	}
	if err := d.until("the proxy to be ready", d.ready); err != nil {
		return err
	}
	for _, p := range d.node.Pods[:2] {
		text, err := d.node.Output(d.ctx, redirect, "enroll", "--socket", d.path("enroll.sock"),
			"--netns", p.Path, "--name", p.Name, "--namespace", "demo", "--service-account", "default")
		if err != nil {
			return fmt.Errorf("enrol %s: %w: %s", p.Name, err, text)
		}
	}
	return nil
}

// ready asks the proxy's readiness port, from its own node.
func (d *demo) ready() error {
	status, err := d.node.Output(d.ctx, "curl", "-s", "-m", "2", "-o", "/dev/null", "-w", "%{http_code}", "http://127.0.0.1:15021/healthz/ready")
	if err == nil && status != fmt.Sprint(http.StatusOK) {
		err = fmt.Errorf("readiness answers %s", status)
	}
	return err
}

func (d *demo) run(s *lab.Space, p lab.Program) (*lab.Process, error) {
	proc, err := s.Start(p)
	if err == nil {
		d.procs = append(d.procs, proc)
	}
	return proc, err
}

// until asks again and again, for as long as something takes on a busy machine.
func (d *demo) until(what string, ask func() error) error {
	deadline := time.Now().Add(10 * time.Second)
	for {
		err := ask()
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) || d.ctx.Err() != nil {
			return fmt.Errorf("waited for %s: %w", what, errors.Join(err, d.ctx.Err()))
		}
		select {
		case <-d.ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// untracked checks that capture left nothing to connection tracking.
func (d *demo) untracked() error {
	for _, p := range d.node.Pods[:2] {
		n, err := p.Sysctl("net.netfilter.nf_conntrack_count")
		if errors.Is(err, os.ErrNotExist) {
			n = "0" // this kernel has not loaded it
		} else if err != nil {
			return err
		}
		if n != "0" {
			return fmt.Errorf("connection tracking holds %s entries in %s; capture should need none", n, p.Name)
		}
	}
	fmt.Fprintln(d.out, "connection tracking: 0 entries in both enrolled pods")
	return nil
}

// tails says what the programs wrote last.
func (d *demo) tails(w io.Writer) {
	for _, p := range d.procs {
		fmt.Fprintf(w, "-- %s wrote last:\n%s\n", p.Name, p.LogTail(10))
	}
}

// hints says what to try in a lab that stays.
func (d *demo) hints(name string) {
	fmt.Fprintf(d.out, `
the lab stays up. Try:
  ip netns exec %[1]s curl -s http://%[2]s:%[8]d/          # out of an enrolled pod
  bin/sluicectl lab exec h1 -- curl -s http://%[3]s:%[8]d/     # into one
  ip netns exec %[4]s curl -s 127.0.0.1:15000/flows  # what is open
  ip netns exec %[4]s curl -s 127.0.0.1:15020/metrics
  ip netns exec %[1]s nft list table inet sluice     # the capture rules
  bin/sluice-redirect list --socket %[5]s
  tail -f %[6]s
and in the end: bin/sluicectl lab down --name %[7]s
`, d.node.Pods[0].Netns, d.lab.Hosts[0].Addr4, d.node.Pods[1].Addr4, d.node.Netns, d.path("enroll.sock"), d.sluice.LogPath, name, httpPort)
}
