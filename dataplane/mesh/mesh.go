// Package mesh is what the node knows of the mesh: workloads by address and by
// name, as an immutable Snapshot. It is pure.
//
// Data enters by New, from whoever reads a control plane or a file, and leaves by
// lookups that do not allocate. A Current holds the newest snapshot.
//
// Owns: a Snapshot its workloads; nobody changes them after New. Threads: any.
package mesh

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
)

// A Protocol is how a workload is reached.
type Protocol uint8

// The protocols.
const (
	TCP   Protocol = iota // plain TCP
	HBONE                 // a tunnel to its port 15008
)

func (p Protocol) String() string {
	switch p {
	case TCP:
		return "TCP"
	case HBONE:
		return "HBONE"
	}
	return fmt.Sprintf("protocol %d", uint8(p))
}

// A Workload is one endpoint of the mesh: a pod, most often.
type Workload struct {
	UID                              string // of the control plane; unique
	Name, Namespace, ServiceAccount  string
	TrustDomain                      string // of its identity, with Namespace and ServiceAccount
	Node                             string // where it runs
	Addresses                        []netip.Addr
	Protocol                         Protocol
	HostNetwork                      bool // shares its node's addresses, so it isn't found by them
	ClusterID                        string
	WorkloadName, WorkloadType       string // what made it: "cart", "deployment"
	CanonicalName, CanonicalRevision string
	Region, Zone, Subzone            string
}

// A Snapshot is the mesh at one moment; immutable.
type Snapshot struct {
	workloads []*Workload // by UID
	byAddr    map[netip.Addr]*Workload
	byName    map[name]*Workload
}

// A name is how the node's agent knows a pod.
type name struct{ namespace, name, serviceAccount string }

// New makes a snapshot of workloads, which it takes. Its error has all that is wrong
// with them together: two with one UID, or two with one address.
func New(workloads []*Workload) (*Snapshot, error) {
	s := &Snapshot{
		workloads: slices.SortedStableFunc(slices.Values(workloads), func(a, b *Workload) int {
			switch {
			case a.UID < b.UID:
				return -1
			case a.UID > b.UID:
				return 1
			}
			return 0
		}),
		byAddr: make(map[netip.Addr]*Workload, len(workloads)),
		byName: make(map[name]*Workload, len(workloads)),
	}
	var faults []error
	for i, w := range s.workloads {
		if i > 0 && s.workloads[i-1].UID == w.UID {
			faults = append(faults, fmt.Errorf("uid %q: is of two workloads, %s/%s and %s/%s; each needs its own",
				w.UID, s.workloads[i-1].Namespace, s.workloads[i-1].Name, w.Namespace, w.Name))
		}
		s.byName[name{w.Namespace, w.Name, w.ServiceAccount}] = w
		for j, a := range w.Addresses {
			w.Addresses[j] = a.Unmap()
		}
		if w.HostNetwork {
			continue
		}
		for _, a := range w.Addresses {
			if other := s.byAddr[a]; other != nil {
				faults = append(faults, fmt.Errorf("address %v: is of two workloads, %s/%s and %s/%s; remove it from one",
					a, other.Namespace, other.Name, w.Namespace, w.Name))
				continue
			}
			s.byAddr[a] = w
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return s, nil
}

// ByAddr returns the workload that has the address a, or nil. A workload of the
// host's network is not found by it.
func (s *Snapshot) ByAddr(a netip.Addr) *Workload { return s.byAddr[a.Unmap()] }

// ByName returns the workload that the agent knows by this name, or nil.
func (s *Snapshot) ByName(namespace, podName, serviceAccount string) *Workload {
	return s.byName[name{namespace, podName, serviceAccount}]
}

// Len returns the number of workloads.
func (s *Snapshot) Len() int { return len(s.workloads) }

// Workloads yields all workloads in the order of their UIDs.
func (s *Snapshot) Workloads() iter.Seq[*Workload] { return slices.Values(s.workloads) }
