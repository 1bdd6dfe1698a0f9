package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// defaultStateDir is where programs and agent keep what must survive them.
const defaultStateDir = "/run/sluice"

// A target is the network namespace that a command is about, as flags name it.
type target struct {
	name string // a name below /run/netns, or a path
	pid  int
}

func (t *target) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.name, "netns", "", "network namespace of the pod: a name below /run/netns, or a path")
	cmd.Flags().IntVar(&t.pid, "pid", 0, "a process in the pod, instead of --netns")
}

// path is where the namespace is found.
func (t *target) path() (string, error) {
	switch {
	case (t.name == "") == (t.pid == 0):
		return "", errors.New("say which network namespace: either --netns NAME or PATH, or --pid PID")
	case t.pid < 0:
		return "", fmt.Errorf("--pid is %d; want the number of a process", t.pid)
	case t.pid > 0:
		return fmt.Sprintf("/proc/%d/ns/net", t.pid), nil
	case strings.Contains(t.name, "/"):
		return t.name, nil
	}
	return filepath.Join("/run/netns", t.name), nil
}

func (t *target) open() (*netns.Handle, error) {
	path, err := t.path()
	if err != nil {
		return nil, err
	}
	ns, err := netns.Open(path)
	if errors.Is(err, sys.EINVAL) {
		return nil, fmt.Errorf("%w: it is something else; name a file below /run/netns or /proc/PID/ns/net", err)
	}
	return ns, err
}
