package dial

import (
	"fmt"

	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// A Kind is what a socket is made for.
type Kind uint8

// The kinds, each in both families.
const (
	Network     Kind = iota // outward; bound to one of the pod's addresses or to none
	Spoofed                 // to the application, in the client's name
	Application             // to the application, in the pod's own name
	kinds
)

// Options say how sockets are set up.
type Options struct {
	NoMark     bool
	Congestion string // of connections to the application; "" means the host's
}

// ahead is how many sockets are made at once at most.
const ahead = 8

// A Maker makes sockets in a pod, a few at a time: entering the namespace costs
// as much as several of them. It belongs to the pod's home loop and owns the
// sockets that it has made and not given away.
type Maker struct {
	loop *loop.Loop
	ns   *sys.FD // borrowed from the pod
	opts Options

	spare [kinds][2]shelf // by kind and family
	timer loop.Timer
	batch int  // how many are made next time
	used  bool // since the timer was armed
}

// shelf holds sockets that are ready.
type shelf struct {
	fds [ahead]sys.FD
	n   int
}

// NewMaker makes sockets in the namespace ns, which the caller keeps open.
func NewMaker(l *loop.Loop, ns *sys.FD, opts Options) *Maker {
	return &Maker{loop: l, ns: ns, opts: opts, batch: 1}
}

// Get moves a socket of the kind and family into the empty f.
func (m *Maker) Get(f *sys.FD, kind Kind, family sys.Family) error {
	which := 0
	if family == sys.IPv6 {
		which = 1
	}
	s := &m.spare[kind][which]
	if s.n == 0 {
		if err := m.fill(s, kind, family); err != nil {
			return err
		}
	}
	m.used = true
	s.n--
	s.fds[s.n].MoveTo(f)
	m.loop.Metrics.Move(metric.SpareSocket, -1)
	return nil
}

// idle is how long a socket may wait to be used, in ticks of the timer.
const idle = 1e9

// fill makes as many as were worth it lately: one more each time within the
// same second, up to ahead.
func (m *Maker) fill(s *shelf, kind Kind, family sys.Family) error {
	if !m.timer.Armed() {
		m.loop.Arm(&m.timer, idle, m)
	}
	err := m.loop.Enter(m.ns, func() error {
		for s.n < m.batch {
			f := &s.fds[s.n]
			if err := m.open(f, kind, family); err != nil {
				_ = f.Close()
				return err
			}
			s.n++
			m.loop.Metrics.Move(metric.SpareSocket, 1)
			m.loop.Metrics.Inc(metric.SocketsMade)
		}
		return nil
	})
	m.batch = min(2*m.batch, ahead)
	if s.n > 0 {
		return nil
	}
	return err
}

func (m *Maker) open(f *sys.FD, kind Kind, family sys.Family) error {
	if err := sys.Socket(f, family); err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if !m.opts.NoMark {
		if err := sys.SetMark(f, sys.Mark); err != nil {
			return fmt.Errorf("SO_MARK: %w", err)
		}
	}
	if err := sys.SetNoDelay(f); err != nil {
		return fmt.Errorf("TCP_NODELAY: %w", err)
	}
	if err := sys.SetUrgentInline(f); err != nil {
		return fmt.Errorf("SO_OOBINLINE: %w", err)
	}
	if kind != Application {
		if err := sys.SetTransparent(f, family); err != nil {
			return fmt.Errorf("IP_TRANSPARENT: %w", err)
		}
	}
	switch kind {
	case Network:
		if err := sys.SetBindNoPort(f); err != nil {
			return fmt.Errorf("IP_BIND_ADDRESS_NO_PORT: %w", err)
		}
	case Spoofed:
		if err := sys.SetReuseAddr(f); err != nil {
			return fmt.Errorf("SO_REUSEADDR: %w", err)
		}
	case Application: // neither: the kernel chooses address and port
	}
	if kind != Network && m.opts.Congestion != "" {
		if err := sys.SetCongestion(f, m.opts.Congestion); err != nil {
			return fmt.Errorf("congestion control %s: %w", m.opts.Congestion, err)
		}
	}
	return nil
}

// Fire lets sockets go that nobody wanted for a while.
func (m *Maker) Fire() {
	if m.used {
		m.used = false
		m.loop.Arm(&m.timer, idle, m)
		return
	}
	m.empty()
}

func (m *Maker) empty() {
	m.batch = 1
	for k := range m.spare {
		for f := range m.spare[k] {
			s := &m.spare[k][f]
			for s.n > 0 {
				s.n--
				_ = s.fds[s.n].Close()
				m.loop.Metrics.Move(metric.SpareSocket, -1)
			}
		}
	}
}

// Close closes what was made and not given away.
func (m *Maker) Close() {
	m.loop.Disarm(&m.timer)
	m.empty()
}
