package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/dataplane/zds"
)

// An order is one request that waits for its turn on a link.
type order struct {
	ctx  context.Context // of whoever waits: one who does not any more is not served
	req  zds.Request
	ns   *sys.FD // owned; closed by finish
	done chan error
}

// finish answers whoever waits; exactly once.
func (o *order) finish(err error) {
	if o.ns != nil {
		o.ns.Close()
	}
	o.done <- err
}

func (o *order) wait() error {
	select {
	case err := <-o.done:
		return err
	case <-o.ctx.Done():
		return fmt.Errorf("%v %q: %w", o.req.Kind, o.req.UID, context.Cause(o.ctx))
	}
}

// A link is the connection to one proxy. It asks one thing at a time and waits
// for the answer: there are no ids, so an answer that comes too late would be
// taken for the next one. After any doubt the link is closed; the proxy connects
// again and gets a fresh snapshot.
type link struct {
	// Fixed.
	s      *server
	c      *zds.Conn
	pid    int
	log    *slog.Logger
	orders chan *order

	// Set by serve before join.
	hello zds.Hello

	// Owned by serve.
	answers chan answer

	// Guarded by s.mu.
	synced bool
	gone   bool
	acked  map[string]bool // uids that this proxy listens for
}

type answer struct {
	r   zds.Response
	err error
}

// put queues an order; one for a link that is gone fails.
func (l *link) put(o *order) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if !l.gone {
		select {
		case l.orders <- o:
			return
		default: // a hundred wait: this proxy does not keep up
		}
	}
	o.finish(errors.New("proxy went away, or does not keep up"))
}

// serve runs the link from hello to end.
func (l *link) serve(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { l.c.Close() })
	defer stop()
	defer l.c.Close()
	l.s.count(func(n *Stats) { n.Links++ })

	hello, err := l.c.ReadHello(time.Now().Add(l.s.cfg.HelloWait))
	if err != nil {
		l.s.count(func(n *Stats) { n.LinkErrors++ })
		l.log.Warn("proxy said no hello", "error", err)
		return
	}
	l.hello = hello
	if hello.Version != zds.V1 {
		l.log.Warn("proxy speaks another version of the protocol", "version", hello.Version)
	}
	if !hello.Serves(zds.ModeDirect) {
		l.log.Warn("proxy does not name capture mode direct: pods of that mode are given to it, but no new ones", "modes", hello.Modes)
	}

	// From here on the link gets every change, in order, behind the snapshot.
	l.s.join(l)
	defer l.s.leave(l)

	l.answers = make(chan answer)
	quit := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() { l.read(quit) })
	defer func() {
		close(quit)
		l.c.Close()
		reader.Wait()
	}()

	err = l.snapshot(ctx)
	if err == nil {
		l.s.synced(l)
		err = l.obey(ctx)
	}
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, io.EOF):
		l.log.Info("proxy went away")
	default:
		l.s.count(func(n *Stats) { n.LinkErrors++ })
		l.log.Warn("proxy dropped", "error", err)
	}
}

// read passes on what the proxy says until it is gone.
func (l *link) read(quit <-chan struct{}) {
	for {
		r, err := l.c.ReadResponse(time.Time{})
		select {
		case l.answers <- answer{r, err}:
		case <-quit:
			return
		}
		if err != nil {
			return
		}
	}
}

// snapshot names every pod that exists.
func (l *link) snapshot(ctx context.Context) error {
	all := l.s.pods()
	defer func() {
		for _, p := range all {
			if p.ns != nil {
				p.ns.Close()
			}
		}
	}()
	for _, p := range all {
		req := zds.Request{Kind: zds.Keep, UID: p.uid}
		if p.ns != nil {
			req = zds.Request{Kind: zds.Add, UID: p.uid, Info: &p.info}
		}
		failure, err := l.ask(ctx, req, p.ns)
		if err != nil {
			return fmt.Errorf("snapshot: %w", err)
		}
		if failure != nil {
			l.log.Warn("proxy could not start a pod of the snapshot; it tries again by itself", "pod", p.uid, "error", failure)
		}
	}
	failure, err := l.ask(ctx, zds.Request{Kind: zds.SnapshotSent}, nil)
	if err == nil && failure != nil {
		err = failure // it did not take the snapshot: there is nothing to build on
	}
	return err
}

// obey carries out orders until the connection ends.
func (l *link) obey(ctx context.Context) error {
	for {
		select {
		case o := <-l.orders:
			if err := l.carryOut(ctx, o); err != nil {
				return err
			}
		case a := <-l.answers:
			if a.err != nil {
				return a.err
			}
			return errors.New("it said something without being asked")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// carryOut serves one order. An error is the end of the link.
func (l *link) carryOut(ctx context.Context, o *order) error {
	if err := o.ctx.Err(); err != nil {
		o.finish(err)
		return nil
	}
	failure, err := l.ask(ctx, o.req, o.ns)
	if err != nil {
		o.finish(fmt.Errorf("proxy %d: %w", l.pid, err))
		return err
	}
	if failure != nil {
		failure = fmt.Errorf("proxy %d refused: %w", l.pid, failure)
	}
	o.finish(failure)
	return nil
}

// ask sends one request and waits for its answer. failure is what the proxy could
// not do; err is the end of the link.
func (l *link) ask(ctx context.Context, r zds.Request, ns *sys.FD) (failure, err error) {
	late := time.NewTimer(l.s.cfg.AskWait)
	defer late.Stop()
	if err := l.c.SendRequest(r, ns, time.Now().Add(l.s.cfg.AskWait)); err != nil {
		return nil, err
	}
	var a answer
	select {
	case a = <-l.answers:
	case <-late.C:
		l.s.count(func(n *Stats) { n.AskTimeouts++ })
		return nil, fmt.Errorf("no answer to %v %q within %v", r.Kind, r.UID, l.s.cfg.AskWait)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if a.err != nil {
		return nil, fmt.Errorf("answer to %v %q: %w", r.Kind, r.UID, a.err)
	}
	if a.r.Error != "" {
		l.s.count(func(n *Stats) { n.Nacks++ })
		failure = errors.New(a.r.Error)
	}
	l.s.mu.Lock()
	switch r.Kind {
	case zds.Add:
		l.acked[r.UID] = failure == nil
	case zds.Del:
		delete(l.acked, r.UID)
	case zds.Keep, zds.SnapshotSent: // tell nothing of what it listens for
	}
	l.s.mu.Unlock()
	return failure, nil
}
