package session

import (
	"encoding/binary"
	"fmt"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

const (
	sessionVersion = 1

	flagLeased      = 1 << 0
	flagRetried     = 1 << 1
	flagApplication = 1 << 2
)

// A Frozen is a live flow as plain data: its pod, what is known of it, and its
// descriptors. It owns the descriptors.
type Frozen struct {
	UID   string
	State []byte
	FDs   []*sys.FD
}

// Close drops the flow: both sides get a reset.
func (f *Frozen) Close() { sys.NewFDs(f.FDs).Close() }

// FreezeAll writes down every flow of the pod on l, to which it must be called,
// and hands what they had of the pod back. Flows that are on their way between
// two loops, or that go through a tunnel, are left for another time.
func (p *Pod) FreezeAll(l *loop.Loop) []*Frozen {
	var all []*Frozen
	for s := local(l).first; s != nil; {
		next := s.next
		if s.pod == p && s.hop == nil && (s.state == dialing || s.state == relaying) {
			all = append(all, s.freeze())
		}
		s = next
	}
	return all
}

// freeze writes s down and takes it home, as if it had ended.
func (s *Session) freeze() *Frozen {
	var flags byte
	if s.leased {
		flags |= flagLeased
	}
	if s.retried {
		flags |= flagRetried
	}
	if s.application {
		flags |= flagApplication
	}
	b := []byte{sessionVersion, byte(s.state), byte(s.path), flags}
	b = binary.AppendUvarint(b, s.id)
	b = flow.AppendDuration(b, s.loop.Now()-s.began)
	b = flow.AppendAddr(b, s.tuple.Client)
	b = flow.AppendAddr(b, s.tuple.Dst)
	b = flow.AppendAddr(b, s.to)
	b = flow.AppendAddr(b, s.source)
	var fds []*sys.FD
	if s.state == dialing {
		b = flow.AppendDuration(b, s.dialing.Left())
		s.dialing.Stop()
		b, fds = s.client.Freeze(b, nil)
		b, fds = s.server.Freeze(b, fds)
	} else {
		b, fds = s.pair.Freeze(b, nil)
	}
	s.loop.Metrics.Inc(metric.Frozen)
	s.leave()
	return &Frozen{UID: s.pod.Info.UID, State: b, FDs: fds}
}

// A thawing is a flow on its way into this process: decoded in part on the home
// loop, which notes what it has of the pod, then on its own.
type thawing struct {
	s   *Session
	d   *flow.Decoder
	fds *sys.FDs
	st  state
}

// Thaw takes f and goes on with the flow on the loop to; from any goroutine. Why
// it can't, such as a damaged state, is told to failed, on a loop or at once, and
// counted there; both sides get a reset then.
func (p *Pod) Thaw(f *Frozen, to *loop.Loop, failed func(error)) {
	if !p.home.Post(loop.Func(func() {
		t := &thawing{d: flow.NewDecoder(f.State), fds: sys.NewFDs(f.FDs)}
		if err := t.admit(p, to); err != nil {
			t.fds.Close()
			p.home.Metrics.Inc(metric.ThawRefused)
			failed(err)
			return
		}
		onward := loop.Func(func() {
			if err := t.resume(); err != nil {
				to.Metrics.Inc(metric.ThawRefused)
				failed(err)
			}
		})
		if to == p.home {
			onward()
		} else if !to.Post(onward) {
			t.fds.Close()
			to.CountFlow(-1)
			t.s.release()
			p.home.Metrics.Inc(metric.ThawRefused)
			failed(fmt.Errorf("loop %d has ended", to.ID()))
		}
	})) {
		f.Close()
		failed(fmt.Errorf("loop %d has ended", p.home.ID()))
	}
}

// admit decodes what the pod has to know, on the home loop.
func (t *thawing) admit(p *Pod, to *loop.Loop) error {
	if p.ended {
		return fmt.Errorf("pod %s is gone", p.Info.UID)
	}
	d := t.d
	d.Version("session", sessionVersion)
	t.st = state(d.Byte())
	if t.st != dialing && t.st != relaying {
		d.Fail("bad state")
	}
	s := p.session()
	s.loop = to
	s.path = flow.Path(d.Byte())
	if s.path >= flow.Paths {
		d.Fail("bad path")
	}
	s.pair.Path = s.path
	flags := d.Byte()
	s.retried = flags&flagRetried != 0
	s.id = d.Uint()
	s.began = -d.Duration() // its age, until the loop's clock is known
	s.tuple = flow.Tuple{Client: d.Addr(), Dst: d.Addr()}
	s.verdict, s.application = flow.Direct, flags&flagApplication != 0
	s.to, s.source = d.Addr(), d.Addr()
	leased := flags&flagLeased != 0
	if !s.tuple.Client.IsValid() || !s.tuple.Dst.IsValid() || !s.to.IsValid() || leased && !s.source.IsValid() {
		d.Fail("missing address")
	}
	if d.Err() != nil {
		s.release()
		return d.Err()
	}
	t.s = s
	if s.application {
		p.ports.Hold(s.tuple.Client, s.tuple.Dst)
		s.held = true
	}
	if leased {
		p.ports.Hold(s.source, s.tuple.Dst)
		s.leased = true
	}
	to.CountFlow(1)
	return nil
}

// resume decodes the rest on the flow's own loop and goes on.
func (t *thawing) resume() error {
	s := t.s
	defer t.fds.Close()
	local(s.loop).add(s)
	s.began += s.loop.Now()
	s.state = t.st
	err := t.ends()
	if err == nil && len(t.d.Rest()) > 0 {
		t.d.Fail("more than a session")
		err = t.d.Err()
		s.cut(flow.CloseInternal)
		return err
	}
	if err != nil {
		s.complete(flow.CloseInternal, err)
		return err
	}
	s.loop.Metrics.Inc(metric.Thawed)
	return nil
}

// ends decodes what is of the two sockets. On error both were reset.
func (t *thawing) ends() (err error) {
	s, d := t.s, t.d
	if s.state == dialing {
		left := min(d.Duration(), s.pod.env.Patience)
		if err = s.client.Thaw(d, t.fds.Next(), s.loop, (*dialPeer)(s), true); err == nil {
			if err = s.server.Thaw(d, t.fds.Next(), s.loop, &s.dialing, false); err != nil {
				s.client.Finish(flow.CloseInternal)
			}
		}
		if err == nil {
			s.dialing.Resume(s.loop, left, &s.timer, s)
		}
	} else if err = s.pair.Thaw(d, t.fds, s.loop, &s.pod.env.Relay, &s.client, &s.server, s); err == nil {
		s.armKeepalive()
	}
	return err
}
