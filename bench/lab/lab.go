// Package lab makes nodes and pods out of network namespaces and veth pairs.
//
// A node is a namespace in which a proxy and its agent run. Pods hang on their
// node by a veth pair, nodes and outside hosts on one bridge, the trunk. All
// addresses come from the ranges for documentation (RFC 5737, RFC 3849), the same
// ones in every lab: labs do not see each other.
//
// Data enters as a Topology; it leaves as namespaces below /run/netns, where
// `ip netns exec` finds them too, and as Spaces on which sockets, programs and
// settings are made. Owns: those namespaces, one directory below /run/sluice-lab
// with the record of the lab, and every process inside. A lab whose owner was
// killed is removed by the next one that is built. Threads: any goroutine.
package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// A Lab is a built topology.
type Lab struct {
	Name   string  // begins the names of its namespaces
	Nodes  []*Node // in the order of the Topology
	Hosts  []*Host
	Trunk  *Space // holds the bridge; its port to node n is "t-n"
	Dir    string // for files of this lab; gone with it
	Tuning Tuning // what could be set on this kernel

	mu        sync.Mutex // guards what follows
	processes []*Process
	closed    bool
}

// A Node is the namespace of a machine: its proxy and agent run here. It routes
// for its pods.
type Node struct {
	*Space
	Pods []*Pod
}

// A Pod is the namespace of an application, behind its node.
type Pod struct {
	*Space
	Node *Node
	Veth string // the node's side of its link
}

// A Host is a machine on the trunk that takes no part: nothing is ever enrolled
// there.
type Host struct {
	*Space
}

// Build makes a lab. With an empty name it belongs to this process and dies with
// it; a named one stays until it is closed, by any process (Open).
//
// On error nothing is left of it.
func Build(name string, want Topology) (_ *Lab, err error) {
	plan, err := want.plan()
	if err != nil {
		return nil, err
	}
	st, err := claim(name, want)
	if err != nil {
		return nil, err
	}
	l := &Lab{Name: st.Name, Dir: st.dir()}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("build lab %s: %w", l.Name, err), l.Close())
		}
	}()
	if l.Tuning, err = tuneHost(); err != nil {
		return nil, err
	}
	if err = l.makeSpaces(plan, createNamespace); err != nil {
		return nil, err
	}
	if err = l.wire(plan); err != nil {
		return nil, err
	}
	if name != "" {
		if err = st.keep(); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// Open finds a named lab that stands.
func Open(name string) (*Lab, error) {
	st, err := readState(labName(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("lab %q is not up: %w", name, fs.ErrNotExist)
	} else if err != nil {
		return nil, fmt.Errorf("lab %q: %w", name, err)
	}
	plan, err := st.Topology.plan()
	if err != nil {
		return nil, fmt.Errorf("lab %q, recorded in %s: %w", name, st.dir(), err)
	}
	l := &Lab{Name: st.Name, Dir: st.dir()}
	if err := l.makeSpaces(plan, openNamespace); err != nil {
		l.release()
		return nil, fmt.Errorf("open lab %q: %w", name, err)
	}
	if l.Tuning.Congestion, err = l.Trunk.Sysctl("net.ipv4.tcp_congestion_control"); err != nil {
		l.release()
		return nil, fmt.Errorf("open lab %q: %w", name, err)
	}
	return l, nil
}

// makeSpaces fills the lab with one Space per member of the plan.
func (l *Lab) makeSpaces(p plan, open func(name string) (*handle, error)) error {
	space := func(name string, a Addrs) (*Space, error) {
		s := &Space{Name: name, Netns: l.Name + "-" + name, Addrs: a, lab: l, Dir: filepath.Join(l.Dir, name)}
		s.Path = filepath.Join(netnsDir, s.Netns)
		var err error
		if s.handle, err = open(s.Netns); err != nil {
			return nil, err
		}
		return s, nil
	}
	var err error
	if l.Trunk, err = space(trunkName, Addrs{}); err != nil {
		return err
	}
	for _, n := range p.nodes {
		s, err := space(n.name, n.addrs)
		if err != nil {
			return err
		}
		node := &Node{Space: s}
		l.Nodes = append(l.Nodes, node)
		for _, pd := range n.pods {
			s, err := space(pd.name, pd.addrs)
			if err != nil {
				return err
			}
			node.Pods = append(node.Pods, &Pod{Space: s, Node: node, Veth: "p-" + pd.name})
		}
	}
	for _, h := range p.hosts {
		s, err := space(h.name, h.addrs)
		if err != nil {
			return err
		}
		l.Hosts = append(l.Hosts, &Host{Space: s})
	}
	return nil
}

// Spaces lists every namespace of the lab but the trunk's.
func (l *Lab) Spaces() []*Space {
	var all []*Space
	for _, n := range l.Nodes {
		all = append(all, n.Space)
		for _, p := range n.Pods {
			all = append(all, p.Space)
		}
	}
	for _, h := range l.Hosts {
		all = append(all, h.Space)
	}
	return all
}

// Find returns the node, pod or host of that name; nil when there is none.
func (l *Lab) Find(name string) *Space {
	for _, s := range l.Spaces() {
		if s.Name == name {
			return s
		}
	}
	return nil
}

// Close ends every process inside, whoever started it, and removes the lab. A
// second Close does nothing.
func (l *Lab) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	started := l.processes
	l.mu.Unlock()

	var faults []error
	for _, p := range started {
		faults = append(faults, p.end())
	}
	l.release()
	return errors.Join(append(faults, tearDown(l.Name))...)
}

// release gives the descriptors of the namespaces back.
func (l *Lab) release() {
	for _, s := range append(l.Spaces(), l.Trunk) {
		if s != nil && s.handle != nil {
			s.handle.Close()
		}
	}
}

// remember makes Close end p. It reports an error when the lab is closed.
func (l *Lab) remember(p *Process) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return fmt.Errorf("lab %s: %w", l.Name, os.ErrClosed)
	}
	l.processes = append(l.processes, p)
	return nil
}
