package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/dataplane/zds"
	"github.com/sluice-mesh/sluice/redirect"
	"github.com/sluice-mesh/sluice/redirect/apply"
)

// ErrTaken is wrapped by the refusal of a uid or a namespace that another pod has.
var ErrTaken = errors.New("already taken")

// ErrUnknown is wrapped by errors about a pod that is not enrolled.
var ErrUnknown = errors.New("no such pod is enrolled")

// ErrMode is wrapped by the refusal of a capture mode that the proxy does not serve.
var ErrMode = errors.New("proxy does not serve this capture mode")

// enroll captures a pod, or finds that it is. fd, the namespace's descriptor, is
// taken; without one the namespace is opened at the path that r says.
func (a *Agent) enroll(ctx context.Context, r Request, fd *sys.FD) (note string, err error) {
	ns, err := openNamespace(r.Netns, fd)
	if err != nil {
		return "", err
	}
	defer func() {
		if ns != nil {
			ns.Close()
		}
	}()
	if ns.ID() == a.home {
		return "", fmt.Errorf("%v: %w; name the pod's", ns.ID(), apply.ErrHostNamespace)
	}
	where, err := placeOf(ns, r.Netns)
	if err != nil {
		return "", err
	}
	rec := record{
		Version: recordVersion, UID: r.UID, Name: r.Name, Namespace: r.Namespace, ServiceAccount: r.ServiceAccount,
		Place: where, Intent: a.cfg.Intent, Phase: Preparing,
	}
	for ctx.Err() == nil {
		old, err := a.known(rec)
		if err != nil {
			return "", err
		}
		if old == nil {
			break
		}
		if old.at() == where.id() {
			return old.again(ctx, rec, r.Mode)
		}
		if err := old.giveWay(ctx); err != nil {
			return "", err
		}
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if rec.Intent, err = a.intentFor(ctx, r.Mode); err != nil {
		return "", err
	}
	first := job{kind: jobEnroll, ctx: ctx, reply: make(chan result, 1)}
	if err := a.register(rec, ns, first); err != nil {
		return "", err
	}
	ns = nil // the actor has it
	got := <-first.reply
	return got.note, got.err
}

// openNamespace takes fd. With a path and a descriptor the descriptor counts: the
// client may see another tree of files.
func openNamespace(path string, fd *sys.FD) (*netns.Handle, error) {
	switch {
	case fd != nil:
		return netns.New(fd)
	case path == "":
		return nil, fmt.Errorf("%w: neither a path nor a descriptor of the network namespace", ErrRequest)
	}
	return netns.Open(path)
}

// known finds the pod of that uid. Another one in the same namespace is an error.
func (a *Agent) known(rec record) (*actor, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if owner, taken := a.owners[rec.Place.id()]; taken && owner != rec.UID {
		return nil, fmt.Errorf("%v is pod %s: %w; unenroll that one first", rec.Place, owner, ErrTaken)
	}
	return a.actors[rec.UID], nil
}

// intentFor picks the capture mode: the one that was asked for if the newest proxy
// named it, else the best that it named.
func (a *Agent) intentFor(ctx context.Context, asked string) (redirect.Intent, error) {
	in := a.cfg.Intent
	if asked != "" {
		var err error
		if in.Mode, err = redirect.ParseMode(asked); err != nil {
			return in, err
		}
		if _, err := redirect.NewPlan(in); err != nil {
			return in, err
		}
	}
	hello, err := a.server.newest(ctx, a.cfg.ProxyWait)
	if err != nil {
		return in, err
	}
	if in.Mode == redirect.ModeDirect && !hello.Serves(zds.ModeDirect) {
		return in, fmt.Errorf("%w: %v; it named %q. Rules of another mode are not written by this version: run Sluice as the proxy, or have istio-cni program the pod", ErrMode, in.Mode, hello.Modes)
	}
	return in, nil
}

// register makes rec a pod of this agent, which does first, unless its uid or
// namespace was taken meanwhile. It takes ns on success only.
func (a *Agent) register(rec record, ns *netns.Handle, first job) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, sameUID := a.actors[rec.UID]
	_, sameNS := a.owners[rec.Place.id()]
	if sameUID || sameNS {
		return fmt.Errorf("pod %s or %v is being enrolled by another request: %w", rec.UID, rec.Place, ErrTaken)
	}
	p := a.newActor(rec)
	p.ns = ns
	a.actors[rec.UID] = p
	a.owners[rec.Place.id()] = rec.UID
	a.wg.Go(func() { p.run(a.life, &first) })
	return nil
}

// unenroll lets go of a pod. While flows of the proxy live in it that is refused,
// unless they are to be reset.
func (a *Agent) unenroll(ctx context.Context, uid string, force bool) (note string, err error) {
	a.mu.Lock()
	p := a.actors[uid]
	a.mu.Unlock()
	if p == nil {
		return "", fmt.Errorf("pod %s: %w; list shows those that are", uid, ErrUnknown)
	}
	return p.ask(ctx, job{kind: jobLeave, force: force})
}
