package node

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/admin"
	"github.com/sluice-mesh/sluice/dataplane/logs"
	"github.com/sluice-mesh/sluice/dataplane/pods"
	"github.com/sluice-mesh/sluice/dataplane/session"
	"github.com/sluice-mesh/sluice/dataplane/splice"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// Config is all that a node can be told. The zero value is usable but for Log.
type Config struct {
	Loops   int // 0 means the CPU limit, at most 16
	Pipes   splice.Config
	Session session.Config // Congestion is filled in, and Route and Tunnels if Route is nil
	Pods    pods.Config
	Mesh    Mesh
	Admin   admin.Config   // IPv4Only is filled in
	Build   admin.Build    // as metrics and the dump say it
	Shown   map[string]any // the effective settings as an operator knows them, for the dump
	Log     *slog.Logger

	// Flows is where the records of flows are written if Session.Log is set. Its
	// levels can be changed by the admin port.
	Flows *logs.Output

	// NoSource leaves the source address of connections to the kernel.
	NoSource bool

	// ContainFaults ends one flow by a fault also in builds with the tag
	// "checked", where it ends the process.
	ContainFaults bool

	// HostCongestion leaves the host's congestion control on connections
	// within a pod too.
	HostCongestion bool
}

// DefaultKeepalive is how long a silent peer is trusted: 180 s, then 9 probes
// 180 s apart, as in the environment that this proxy fits into.
var DefaultKeepalive = sys.Keepalive{Idle: 180 * time.Second, Interval: 180 * time.Second, Count: 9}

const maxLoops = 16

func (c Config) check(cpus int) (Config, error) {
	if c.Loops == 0 {
		c.Loops = min(cpus, maxLoops)
	}
	var faults []error
	if c.Loops < 1 || c.Loops > 256 {
		faults = append(faults, fmt.Errorf("loops is %d; want 1 to 256", c.Loops))
	}
	for _, d := range []struct {
		name string
		d    time.Duration
	}{
		{"connect timeout", c.Session.Patience},
		{"idle timeout", c.Session.Relay.Idle},
		{"half-close timeout", c.Session.Relay.HalfClose},
	} {
		if d.d < 0 {
			faults = append(faults, fmt.Errorf("%s is %v; want 0 or more", d.name, d.d))
		}
	}
	for _, r := range c.Session.Ports {
		if r.First == 0 || r.First > r.Last {
			faults = append(faults, fmt.Errorf("source port range %d-%d is empty", r.First, r.Last))
		}
	}
	if c.Log == nil {
		faults = append(faults, errors.New("no logger"))
	}
	if c.Session.Log && c.Flows == nil {
		faults = append(faults, errors.New("records of flows are wanted, and there is nowhere to write them"))
	}
	c.Admin.IPv4Only = c.Session.IPv4Only
	return c, errors.Join(faults...)
}
