package session

import (
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
)

// localKey is where a loop keeps its flows.
type localKey struct{}

// flows are those that live on one loop.
type flows struct {
	first *Session
	ids   uint64
}

func local(l *loop.Loop) *flows {
	return l.Local(localKey{}, func(*loop.Loop) any { return new(flows) }).(*flows)
}

// nextID numbers flows by the loop that accepted them.
func (f *flows) nextID(l *loop.Loop) uint64 {
	f.ids++
	return uint64(l.ID())<<48 | f.ids
}

func (f *flows) add(s *Session) {
	s.next, s.prev = f.first, nil
	if f.first != nil {
		f.first.prev = s
	}
	f.first = s
	s.loop.Metrics.Move(metric.OpenFlows, 1)
}

func (f *flows) remove(s *Session) {
	if s.next != nil {
		s.next.prev = s.prev
	}
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		f.first = s.next
	}
	s.next, s.prev = nil, nil
	s.loop.Metrics.Move(metric.OpenFlows, -1)
}
