package scenario

import (
	"net/netip"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/bench/subject"
)

// A Path is where load runs and which pods on it are captured.
type Path struct {
	Name string
	Note string
	// Quick ones are part of the short run.
	Quick bool

	topology lab.Topology
	client   string // names of spaces
	server   string
	captured []string
}

// Paths lists them. A path through tunnels is one more row.
func Paths() []Path {
	return []Path{
		{"out", "15001: a captured pod to a host outside", true, lab.Simple(1, 1, 1), "p1", "h1", []string{"p1"}},
		{"in", "15006: a host outside to a captured pod", false, lab.Simple(1, 1, 1), "h1", "p1", []string{"p1"}},
		{"node", "15001 and 15006: two captured pods of one node", true, lab.Simple(1, 2, 0), "p1", "p2", []string{"p1", "p2"}},
		{"nodes", "15001 and 15006: two captured pods of two nodes", false, lab.Simple(2, 1, 0), "p1", "p2", []string{"p1", "p2"}},
	}
}

// ground is a path that was built.
type ground struct {
	lab            *lab.Lab
	client, server *lab.Space
	target         netip.Addr
	pods           []subject.Pod
}

func (p Path) build() (*ground, error) {
	l, err := lab.Build("", p.topology)
	if err != nil {
		return nil, err
	}
	g := &ground{lab: l, client: l.Find(p.client), server: l.Find(p.server)}
	g.target = g.server.Addr4
	for _, n := range l.Nodes {
		for _, pod := range n.Pods {
			for _, name := range p.captured {
				if pod.Name == name {
					g.pods = append(g.pods, subject.Pod{Pod: pod, Upstream: g.server.At4(subject.AppPort).String()})
				}
			}
		}
	}
	return g, nil
}
