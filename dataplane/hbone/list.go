package hbone

import "github.com/sluice-mesh/sluice/dataplane/loop"

type listKey struct{}

// list is all tunnels of a loop.
type list struct{ all map[*Tunnel]struct{} }

func local(l *loop.Loop) *list {
	return l.Local(listKey{}, func(*loop.Loop) any { return &list{all: map[*Tunnel]struct{}{}} }).(*list)
}

func (l *list) add(t *Tunnel)    { l.all[t] = struct{}{} }
func (l *list) remove(t *Tunnel) { delete(l.all, t) }

// Of returns the tunnels of owner on l, to which it must be called.
func Of(l *loop.Loop, owner Owner) []*Tunnel {
	var all []*Tunnel
	for t := range local(l).all {
		if t.owner == owner {
			all = append(all, t)
		}
	}
	return all
}
