package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// An actor is one pod. Whatever is done to the pod is done on its goroutine, one
// thing after the other: what is asked for, and what is tried again by itself.
type actor struct {
	a    *Agent
	jobs chan job
	wake chan struct{} // another proxy may be the newest
	gone chan struct{} // closed when the goroutine takes no job any more

	over bool // owned by run: the pod is the agent's no more

	// Written by run's goroutine only, and under Agent.mu; others read under it.
	rec     record
	ns      *netns.Handle // nil while it can't be opened
	lastErr string
}

type jobKind uint8

const (
	jobEnroll  jobKind = iota + 1 // a new pod
	jobAgain                      // a pod that somebody enrols once more
	jobGiveWay                    // end if the namespace died
	jobLeave
)

type job struct {
	kind  jobKind
	force bool // jobLeave
	ctx   context.Context
	reply chan result
}

type result struct {
	note string
	err  error
}

// errGone is the error of a job for an actor that has ended.
var errGone = errors.New("pod has just been let go")

func (a *Agent) newActor(r record) *actor {
	return &actor{a: a, rec: r, jobs: make(chan job), wake: make(chan struct{}, 1), gone: make(chan struct{})}
}

// ask has the actor do j and waits for it.
func (p *actor) ask(ctx context.Context, j job) (note string, err error) {
	j.ctx, j.reply = ctx, make(chan result, 1)
	select {
	case p.jobs <- j:
	case <-p.gone:
		return "", errGone
	case <-ctx.Done():
		return "", fmt.Errorf("pod %s is busy: %w", p.rec.UID, ctx.Err())
	}
	r := <-j.reply // bounded by ctx, which each step looks at
	return r.note, r.err
}

// again answers an enrolment of a pod that is known.
func (p *actor) again(ctx context.Context, want record, mode string) (string, error) {
	p.a.mu.Lock()
	have := p.rec
	p.a.mu.Unlock()
	if have.info() != want.info() {
		return "", fmt.Errorf("pod %s is enrolled as %s/%s with service account %s: %w; unenroll it first", have.UID, have.Namespace, have.Name, have.ServiceAccount, ErrTaken)
	}
	if mode != "" && mode != have.Intent.Mode.String() {
		return "", fmt.Errorf("pod %s is captured in mode %v: %w; unenroll it first", have.UID, have.Intent.Mode, ErrTaken)
	}
	return p.ask(ctx, job{kind: jobAgain})
}

// giveWay ends the pod if its namespace died; else its uid is taken.
func (p *actor) giveWay(ctx context.Context) error {
	_, err := p.ask(ctx, job{kind: jobGiveWay})
	if errors.Is(err, errGone) {
		return nil
	}
	return err
}

// at is the pod's namespace.
func (p *actor) at() sys.NamespaceID {
	p.a.mu.Lock()
	defer p.a.mu.Unlock()
	return p.rec.Place.id()
}

// run is the actor's goroutine. It does first, if there is one, and ends with the
// pod or with ctx; in the latter case rules and state stay.
func (p *actor) run(ctx context.Context, first *job) {
	defer close(p.gone)
	look := time.NewTicker(p.a.cfg.Retry)
	defer look.Stop()
	if first != nil {
		p.serve(*first)
	} else {
		p.repair(ctx)
	}
	for !p.over && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case j := <-p.jobs:
			p.serve(j)
		case <-p.wake:
			p.repair(ctx)
		case <-look.C:
			p.repair(ctx)
			p.checkAlive(ctx)
		}
	}
	if p.over {
		p.leaveList()
	}
}

// serve does one job and answers it. Who learns that the pod is gone can use its
// uid again.
func (p *actor) serve(j job) {
	note, err := p.do(j)
	if p.over {
		p.leaveList()
	}
	j.reply <- result{note, err}
}

// leaveList makes uid and namespace free.
func (p *actor) leaveList() {
	p.a.mu.Lock()
	if p.a.actors[p.rec.UID] == p {
		delete(p.a.actors, p.rec.UID)
		delete(p.a.owners, p.rec.Place.id())
	}
	p.a.mu.Unlock()
	p.setNamespace(nil)
}

func (p *actor) setNamespace(ns *netns.Handle) {
	p.a.mu.Lock()
	old := p.ns
	p.ns = ns
	p.a.mu.Unlock()
	if old != nil {
		old.Close()
	}
}

// enter writes down that the pod is in a phase, before anything of it is done.
func (p *actor) enter(ph Phase) error {
	next := p.rec
	next.Phase = ph
	return p.write(next)
}

func (p *actor) write(next record) error {
	if err := p.a.store.save(next); err != nil {
		return err
	}
	p.a.mu.Lock()
	p.rec = next
	p.a.mu.Unlock()
	return nil
}

// remember keeps the last error for list, and logs it when it is a new one.
func (p *actor) remember(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	p.a.mu.Lock()
	fresh := text != p.lastErr
	p.lastErr = text
	p.a.mu.Unlock()
	if fresh && err != nil {
		p.a.log.Warn("pod needs another try", "pod", p.rec.UID, "phase", p.rec.Phase, "error", err, "retry_in", p.a.cfg.Retry)
	}
}

func (p *actor) do(j job) (note string, err error) {
	switch j.kind {
	case jobEnroll:
		return p.enrollNew(j.ctx)
	case jobAgain:
		return p.enrollAgain(j.ctx)
	case jobGiveWay:
		if p.checkAlive(j.ctx); !p.over {
			return "", fmt.Errorf("pod %s is in %v, which still exists: %w; unenroll it first", p.rec.UID, p.rec.Place, ErrTaken)
		}
		return "", nil
	case jobLeave:
		return p.leave(j.ctx, j.force)
	}
	panic(fmt.Sprintf("agent: job %d is unknown", j.kind))
}
