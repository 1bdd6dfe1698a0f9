package subject

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
)

// Sluice is the proxy as it ships: one process on each node that has a pod in
// the place.
type Sluice struct {
	Label string   // its name in tables; empty means sluice
	Bin   string   // folder of another build; empty means the place's
	Args  []string // besides those of the bench
}

// profileTime is how long a proxy may take to end and write its profile.
const profileTime = 20 * time.Second

// adminPort is where the proxy's admin server listens.
const adminPort = "127.0.0.1:15000"

// Name is its label.
func (s Sluice) Name() string {
	if s.Label == "" {
		return "sluice"
	}
	return s.Label
}

// Note says what it is.
func (s Sluice) Note() string { return "the proxy that ships, one process per node, access log off" }

// Serves both modes.
func (s Sluice) Serves(mode string) bool { return mode == Direct || mode == Redirect }

// Check looks for the binary of another build; the place's own is looked for when
// the bench starts.
func (s Sluice) Check() error {
	if s.Bin == "" {
		return nil
	}
	return CheckBin(s.Bin)
}

// CheckBin looks for our programs.
func CheckBin(dir string) error {
	for _, name := range []string{"sluice", "sluice-redirect"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("%w; build it with `make build`", err)
		} else if st.Mode()&0o111 == 0 {
			return fmt.Errorf("%s is not executable", filepath.Join(dir, name))
		}
	}
	return nil
}

// Start hands the pods over as an agent does.
func (s Sluice) Start(ctx context.Context, at Place) (*Running, error) {
	bin := s.Bin
	if bin == "" {
		bin = at.Bin
	}
	run := &Running{Name: s.Name(), Admin: adminPort}
	err := eachNode(at.Pods, func(node *lab.Node, pods []Pod) error {
		socket := filepath.Join(node.Dir, "zds.sock")
		agent, err := newAgent(socket, pods)
		if err != nil {
			return err
		}
		run.stops = append(run.stops, agent.close)
		args := []string{"run", "--zds-socket", socket, "--loops", strconv.Itoa(at.Loops), "--access-log=false"}
		if at.Profile != "" {
			args = append(args, "--profile", at.Profile, "--profile-dir", filepath.Join(at.ProfileDir, node.Name))
		}
		p, err := node.Start(lab.Program{Name: "sluice", Path: filepath.Join(bin, "sluice"), Args: append(args, s.Args...)})
		if err != nil {
			return err
		}
		run.processes = append(run.processes, p)
		if at.Profile != "" { // it is written when the process ends in order
			run.stops = append(run.stops, func() { _, _ = p.Stop(lab.SIGTERM, profileTime) })
		}
		if run.Node == nil {
			run.Node = node.Space
		}
		if err := until(ctx, p, "hand over its pods", agent.done); err != nil {
			return err
		}
		return agent.err()
	})
	if err == nil {
		err = at.capture(ctx, false)
	}
	if err != nil {
		run.Stop()
		return nil, err
	}
	return run, nil
}

// eachNode calls fn with the pods of each node, in order.
func eachNode(pods []Pod, fn func(*lab.Node, []Pod) error) error {
	of := make(map[*lab.Node][]Pod)
	var order []*lab.Node
	for _, p := range pods {
		if of[p.Node] == nil {
			order = append(order, p.Node)
		}
		of[p.Node] = append(of[p.Node], p)
	}
	for _, n := range order {
		if err := fn(n, of[n]); err != nil {
			return err
		}
	}
	return nil
}
