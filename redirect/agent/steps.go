package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/redirect"
	"github.com/sluice-mesh/sluice/redirect/apply"
	"github.com/sluice-mesh/sluice/redirect/rt"
)

// A stepError says how far an enrolment came.
type stepError struct {
	step  string
	clean bool // nothing is left of what was done
	err   error
}

func (e *stepError) Error() string { return "step " + e.step + ": " + e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// The steps of an enrolment, as errors name them.
const (
	stepState    = "state (file of the pod)"
	stepPrepare  = "prepare (sysctls, routes, policy rules)"
	stepAnnounce = "announce (the proxy opens its listeners)"
	stepCapture  = "capture (nf_tables)"
)

// enrollNew captures the pod, or takes back all that it did.
func (p *actor) enrollNew(ctx context.Context) (note string, err error) {
	note, failed := p.forward(ctx)
	if failed == nil {
		return note, nil
	}
	p.a.count(func(s *Stats) { s.Failed++ })
	err = fmt.Errorf("enroll pod %s: %w", p.rec.UID, failed)
	p.a.log.Warn("pod not enrolled", "pod", p.rec.UID, "netns", p.rec.Place, "error", failed)
	var back error
	if failed.clean {
		back = p.forget()
	} else {
		back = p.undo(ctx)
	}
	if back != nil {
		p.remember(back)
		return "", fmt.Errorf("%w; taking it back has failed as well, and is tried again: %w", err, back)
	}
	return "", err
}

// forward does every step of an enrolment; each may be repeated. The order is a
// contract: the proxy listens before the first packet is captured, and each phase
// is written down before its step begins.
func (p *actor) forward(ctx context.Context) (note string, failed *stepError) {
	if p.rec.Phase == Preparing {
		if err := p.write(p.rec); err != nil {
			return "", &stepError{stepState, true, err}
		}
	}
	if err := apply.Prepare(p.ns, p.rec.Intent, p.a.state); err != nil {
		return "", &stepError{stepPrepare, p.rec.Phase == Preparing, err}
	}
	if p.rec.Phase == Preparing {
		if err := p.enter(Announcing); err != nil {
			return "", &stepError{stepState, false, err}
		}
	}
	if err := p.a.server.add(ctx, p.rec.UID, p.rec.info(), p.ns); err != nil {
		return "", &stepError{stepAnnounce, false, err}
	}
	if p.rec.Phase == Announcing {
		if err := p.enter(Capturing); err != nil {
			return "", &stepError{stepState, false, err}
		}
	}
	got, err := apply.Capture(p.ns, p.rec.Intent)
	if err != nil {
		return "", &stepError{stepCapture, false, err}
	}
	if err := p.enter(Enrolled); err != nil {
		return "", &stepError{stepState, false, err}
	}
	p.remember(nil)
	p.a.count(func(s *Stats) { s.Enrolled++ })
	p.a.log.Info("pod enrolled", "pod", p.rec.UID, "netns", p.rec.Place, "mode", p.rec.Intent.Mode, "reset", got.Reset, "left", got.Left)
	switch {
	case got.Left > 0:
		note = fmt.Sprintf("%d connections older than the rules were reset, %d end when they next send", got.Reset, got.Left)
	case got.Reset > 0:
		note = fmt.Sprintf("%d connections older than the rules were reset", got.Reset)
	}
	return note, nil
}

// enrollAgain is asked to enrol what is there already.
func (p *actor) enrollAgain(ctx context.Context) (note string, err error) {
	switch p.rec.Phase {
	case Enrolled:
		return "was enrolled already", nil
	case Announcing, Capturing:
		if err := p.reopen(); err != nil {
			return "", err
		}
		note, failed := p.forward(ctx)
		if failed != nil {
			p.remember(failed)
			return "", fmt.Errorf("enroll pod %s: %w", p.rec.UID, failed)
		}
		return note, nil
	case Preparing, Leaving, Undoing:
	}
	return "", fmt.Errorf("pod %s is being removed (phase %s); try again when it is gone", p.rec.UID, p.rec.Phase)
}

// undo takes an enrolment back. The client may have given up waiting; undoing has
// time of its own.
func (p *actor) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*p.a.cfg.AskWait)
	defer cancel()
	if err := p.enter(Undoing); err != nil {
		return err
	}
	if err := p.a.server.del(ctx, p.rec.UID); err != nil {
		p.a.log.Warn("a proxy did not confirm that it let go of a pod", "pod", p.rec.UID, "error", err)
	}
	if _, err := apply.Remove(p.ns, p.a.state, apply.RemoveOptions{}); err != nil && !errors.Is(err, apply.ErrHostNamespace) {
		return fmt.Errorf("undo: %w", err)
	}
	return p.forget()
}

// forget ends the pod: nothing of it is in the kernel any more.
func (p *actor) forget() error {
	if err := p.a.store.drop(p.rec.UID); err != nil {
		return err
	}
	p.over = true
	return nil
}

// leave lets go of the pod. First it is seen whether flows are open: nothing is
// touched when they are. Then the proxy closes its listeners, so that no new flow
// can begin, and only then the rules go: without them, what an application sends
// on a captured flow would leave in the clear.
func (p *actor) leave(ctx context.Context, force bool) (note string, err error) {
	if err := p.reopen(); err != nil {
		return "", err
	}
	if p.rec.Phase == Enrolled && !force {
		n, err := apply.Live(p.ns)
		if err == nil && n > 0 {
			err = fmt.Errorf("pod %s: %w", p.rec.UID, &apply.FlowsLiveError{Count: n})
		}
		if err != nil {
			return "", err
		}
	}
	next := p.rec
	next.Phase, next.Force = Leaving, force
	if err := p.write(next); err != nil {
		return "", err
	}
	silent := p.a.server.del(ctx, p.rec.UID)
	if silent != nil {
		p.a.log.Warn("a proxy did not confirm that it let go of a pod", "pod", p.rec.UID, "error", silent)
	}
	gone, err := p.removeRules(ctx, force)
	switch {
	case errors.Is(err, apply.ErrFlowsLive), errors.Is(err, errListens):
		return "", p.stay(ctx, err)
	case err != nil:
		p.remember(err)
		return "", fmt.Errorf("unenroll pod %s: %w; it is tried again", p.rec.UID, err)
	}
	if err := p.forget(); err != nil {
		p.remember(err)
		return "", err
	}
	p.a.count(func(s *Stats) { s.Unenrolled++ })
	p.a.log.Info("pod unenrolled", "pod", p.rec.UID, "netns", p.rec.Place, "reset", gone.Reset, "sysctls", gone.Sysctls)
	if gone.Reset > 0 {
		note = fmt.Sprintf("%d sockets of the proxy were reset", gone.Reset)
	}
	return note, nil
}

// errListens is the error of a proxy that was told to let go and still listens.
var errListens = errors.New("a proxy still listens there though none that is connected serves the pod; stop it, or force the removal")

// removeRules takes the rules away once nothing listens any more. Flows that the
// last listeners took in may have that long to end.
func (p *actor) removeRules(ctx context.Context, force bool) (apply.Removed, error) {
	late := time.Now().Add(p.a.cfg.LeaveWait)
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
		pause(ctx, wait) // also at first: listeners close just behind the answer
		last := time.Now().After(late) || ctx.Err() != nil
		open, err := rt.Listeners(p.ns, redirect.MarkProxy, redirect.MarkMask)
		if err != nil {
			return apply.Removed{}, err
		}
		if len(open) > 0 && !last {
			continue
		}
		if len(open) > 0 && !force {
			return apply.Removed{}, fmt.Errorf("%w (%v)", errListens, open[0].Local)
		}
		gone, err := apply.Remove(p.ns, p.a.state, apply.RemoveOptions{Force: force})
		if errors.Is(err, apply.ErrFlowsLive) && !force && !last {
			continue
		}
		return gone, err
	}
}

// stay takes a leaving back: the rules are all there, and the proxy is given the
// pod again.
func (p *actor) stay(ctx context.Context, why error) error {
	next := p.rec
	next.Phase, next.Force = Enrolled, false
	if err := p.write(next); err != nil {
		p.remember(err)
		return errors.Join(why, err)
	}
	if err := p.a.server.add(ctx, p.rec.UID, p.rec.info(), p.ns); err != nil {
		p.remember(err) // repair goes on with it
	}
	return fmt.Errorf("pod %s stays: %w", p.rec.UID, why)
}

// reopen makes sure that the pod's namespace is open.
func (p *actor) reopen() error {
	if p.ns != nil {
		return nil
	}
	ns, at, err := p.rec.Place.open()
	if err != nil {
		return fmt.Errorf("pod %s: %w", p.rec.UID, err)
	}
	p.setNamespace(ns)
	return p.moved(at)
}

// moved writes down another path of the pod's namespace.
func (p *actor) moved(at place) error {
	if at == p.rec.Place {
		return nil
	}
	next := p.rec
	next.Place = at
	return p.write(next)
}

// repair brings the pod one try further towards where it should be.
func (p *actor) repair(ctx context.Context) {
	if p.over || ctx.Err() != nil {
		return
	}
	if err := p.reopen(); err != nil {
		p.remember(err)
		return // checkAlive sees whether it is gone for good
	}
	var err error
	switch p.rec.Phase {
	case Enrolled:
		if p.a.server.acked(p.rec.UID) || !p.a.server.any() {
			return
		}
		err = p.a.server.add(ctx, p.rec.UID, p.rec.info(), p.ns)
	case Announcing, Capturing:
		if !p.a.server.any() {
			return
		}
		if _, failed := p.forward(ctx); failed != nil {
			err = failed
		}
	case Leaving:
		_, err = p.leave(ctx, p.rec.Force)
	case Preparing, Undoing:
		err = p.undo(ctx)
	}
	p.a.count(func(s *Stats) { s.Retried++ })
	if !p.over {
		p.remember(err)
	}
}

// checkAlive ends the pod when its namespace died: when neither a name nor a
// process leads to it any more. Our own descriptor, and the proxy's, would keep it
// for ever.
func (p *actor) checkAlive(ctx context.Context) {
	if p.over {
		return
	}
	if h, err := netns.Open(p.rec.Place.Path); err == nil {
		same := p.ns != nil && h.ID() == p.ns.ID()
		h.Close()
		if same {
			return
		}
	}
	h, at, err := p.rec.Place.open()
	if err == nil {
		h.Close()
		if err := p.moved(at); err != nil {
			p.remember(err)
		}
		return
	}
	if !errors.Is(err, errDead) {
		return // can't be told just now
	}
	if err := p.a.server.del(ctx, p.rec.UID); err != nil {
		p.a.log.Warn("a proxy did not confirm that it let go of a pod", "pod", p.rec.UID, "error", err)
	}
	if p.ns != nil {
		if err := p.a.state.Forget(p.ns); err != nil {
			p.a.log.Warn("state of a dead namespace stays", "pod", p.rec.UID, "error", err)
		}
	}
	if err := p.forget(); err != nil {
		p.remember(err)
		return
	}
	p.a.count(func(s *Stats) { s.Dropped++ })
	p.a.log.Warn("pod dropped: its network namespace died", "pod", p.rec.UID, "netns", p.rec.Place)
}
