package pods

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/dataplane/zds"
)

// handle carries out one request and takes fd. What could not be done is in
// failure, for the agent; err is a breach of the protocol.
func (m *Manager) handle(ctx context.Context, r zds.Request, fd *sys.FD) (failure string, err error) {
	switch r.Kind {
	case zds.Add:
		if r.Info == nil {
			fd.Close()
			return "", fmt.Errorf("add of %q without workload_info", r.UID)
		}
		if !m.complete {
			m.named[r.UID] = struct{}{}
		}
		p := Pod{UID: r.UID, Name: r.Info.Name, Namespace: r.Info.Namespace, ServiceAccount: r.Info.ServiceAccount}
		if err := m.add(ctx, p, fd); err != nil {
			return fmt.Sprintf("failure to start proxy : %v", err), nil
		}
	case zds.Keep:
		if m.complete {
			return "", fmt.Errorf("keep of %q after the snapshot", r.UID)
		}
		m.named[r.UID] = struct{}{}
	case zds.Del:
		m.forget(r.UID)
		if !m.complete {
			delete(m.named, r.UID) // one that runs ends with the snapshot
			break
		}
		m.stop(r.UID, "deleted", m.cfg.PodDrain)
	case zds.SnapshotSent:
		if m.complete {
			return "", errors.New("second snapshot_sent on one connection")
		}
		m.complete = true
		m.reconcile()
	}
	return "", nil
}

// add starts p unless it is up in that very namespace. It takes fd.
func (m *Manager) add(ctx context.Context, p Pod, fd *sys.FD) error {
	ns, err := netns.New(fd)
	if err == nil && ns.ID() == m.home {
		ns.Close()
		err = fmt.Errorf("%v is the proxy's own network namespace", m.home)
	}
	if err != nil {
		m.count(func(s *Stats) { s.Refused++ })
		m.log.Error("pod refused", "pod", p, "error", err)
		return err
	}
	m.mu.Lock()
	up := m.running[p.UID]
	m.mu.Unlock()
	if up != nil {
		if up.id == ns.ID() {
			m.forget(p.UID)
			return ns.Close()
		}
		m.stop(p.UID, "replaced: its uid came with another namespace", m.cfg.PodDrain)
	}
	return m.start(ctx, p, ns)
}

// start brings p up, or makes it pending. It takes ns.
func (m *Manager) start(ctx context.Context, p Pod, ns *netns.Handle) error {
	entry := &pod{Pod: p, id: ns.ID(), since: time.Now()}
	spare, err := duplicate(ns) // for another try
	if err != nil {
		ns.Close()
		m.forget(p.UID)
		m.count(func(s *Stats) { s.Refused++ })
		m.log.Error("pod refused", "pod", p, "error", err)
		return err
	}
	limited, cancel := context.WithTimeout(ctx, m.cfg.StartLimit)
	defer cancel()
	entry.run, err = m.host.Start(limited, p, ns)
	if err == nil {
		spare.Close()
		m.forget(p.UID)
		m.mu.Lock()
		m.running[p.UID] = entry
		m.stats.Started++
		m.mu.Unlock()
		m.log.Info("pod up", "pod", p, "netns", entry.id)
		return nil
	}
	m.log.Warn("pod can't be started", "pod", p, "netns", entry.id, "error", err, "retry_in", m.cfg.Retry)
	entry.lastErr, entry.ns = err.Error(), spare
	m.forget(p.UID)
	m.mu.Lock()
	m.stats.StartErrors++
	m.pending[p.UID] = entry
	m.mu.Unlock()
	return err
}

func duplicate(ns *netns.Handle) (*netns.Handle, error) {
	fd, err := ns.FD().Dup()
	if err != nil {
		return nil, fmt.Errorf("second descriptor for %v: %w", ns.ID(), err)
	}
	return netns.New(fd)
}

// startPending tries every pending pod once more.
func (m *Manager) startPending(ctx context.Context) {
	m.mu.Lock()
	all := slices.Sorted(maps.Keys(m.pending))
	m.mu.Unlock()
	for _, uid := range all {
		if ctx.Err() != nil {
			return
		}
		m.mu.Lock()
		p := m.pending[uid] // stays listed meanwhile, without its namespace
		ns := p.ns
		p.ns = nil
		m.mu.Unlock()
		_ = m.start(ctx, p.Pod, ns) // logged, counted and pending again when it fails
	}
}

// reconcile stops every pod that the snapshot did not name.
func (m *Manager) reconcile() {
	m.mu.Lock()
	var gone []string
	for uid := range m.running {
		if _, ok := m.named[uid]; !ok {
			gone = append(gone, uid)
		}
	}
	m.stats.Snapshots++
	m.mu.Unlock()
	slices.Sort(gone)
	for _, uid := range gone {
		m.stop(uid, "not in the agent's snapshot", m.cfg.PodDrain)
	}
	m.log.Info("snapshot complete", "named", len(m.named), "stopped", len(gone))
	m.named = nil
}

// stop lets a pod's flows run out, if it is up.
func (m *Manager) stop(uid, why string, limit time.Duration) {
	m.mu.Lock()
	p := m.running[uid]
	if p != nil {
		delete(m.running, uid)
		p.since = time.Now()
		m.draining[p] = struct{}{}
		m.stats.Stopped++
	}
	m.mu.Unlock()
	if p == nil {
		return
	}
	m.log.Info("pod draining", "pod", p.Pod, "netns", p.id, "reason", why, "limit", limit)
	p.run.Drain(limit)
	m.ends.Go(func() { m.awaitEnd(p) })
}

// awaitEnd waits for the last flow of a draining pod.
func (m *Manager) awaitEnd(p *pod) {
	select {
	case <-p.run.Done():
	case <-m.abandoned:
		return
	}
	m.mu.Lock()
	delete(m.draining, p)
	m.mu.Unlock()
	m.log.Info("pod down", "pod", p.Pod, "netns", p.id)
}

// drainAll gives every pod the process drain to end in, those that drain already
// included.
func (m *Manager) drainAll() error {
	m.mu.Lock()
	up := slices.Sorted(maps.Keys(m.running))
	already := slices.Collect(maps.Keys(m.draining))
	m.mu.Unlock()
	m.host.Stopping()
	for _, p := range already {
		p.run.Drain(m.cfg.ProcessDrain)
	}
	for _, uid := range up {
		m.stop(uid, "shutdown", m.cfg.ProcessDrain)
	}
	all := make(chan struct{})
	go func() { m.ends.Wait(); close(all) }()
	late := time.NewTimer(m.cfg.ProcessDrain + drainSlack)
	defer late.Stop()
	select {
	case <-all:
		return nil
	case <-late.C:
	}
	close(m.abandoned)
	<-all
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats.Abandoned += uint64(len(m.draining))
	var faults []error
	for p := range m.draining {
		faults = append(faults, fmt.Errorf("pod %v had not ended %v after it was told to", p.Pod, m.cfg.ProcessDrain+drainSlack))
	}
	return errors.Join(faults...)
}

// forget closes the pending pod of that uid, if there is one.
func (m *Manager) forget(uid string) {
	m.mu.Lock()
	p := m.pending[uid]
	delete(m.pending, uid)
	m.mu.Unlock()
	p.release()
}

// release closes the namespace of a pod that is pending no more.
func (p *pod) release() {
	if p != nil && p.ns != nil {
		p.ns.Close()
	}
}

func (m *Manager) dropPending() {
	m.mu.Lock()
	all := m.pending
	m.pending = map[string]*pod{}
	m.mu.Unlock()
	for _, p := range all {
		p.release()
	}
}

func (m *Manager) anyPending() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pending) > 0
}

func (m *Manager) setReady(ready bool) {
	m.mu.Lock()
	changed := m.ready != ready
	m.ready = ready
	m.mu.Unlock()
	if changed {
		m.log.Info("workload proxy manager", "ready", ready)
	}
}

func (m *Manager) count(add func(*Stats)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	add(&m.stats)
}
