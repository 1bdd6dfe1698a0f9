package pods

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/dataplane/zds"
)

// answerLimit bounds the sending of one packet; the agent waits as long for it.
const answerLimit = 5 * time.Second

// drainSlack is how much longer than the process drain Run waits for a pod that
// was told to end by then.
const drainSlack = time.Second

// Run follows the agent until ctx ends or the agent breaks the protocol, which is
// a *ProtocolError. Then every pod is drained, at most for the process drain, and
// Run returns; call it once.
func (m *Manager) Run(ctx context.Context) error {
	err := m.follow(ctx)
	m.setReady(false)
	m.dropPending()
	return errors.Join(err, m.drainAll())
}

// follow keeps a connection to the agent. Pods stay up while there is none.
func (m *Manager) follow(ctx context.Context) error {
	wait := backoff{min: m.cfg.BackoffMin, max: m.cfg.BackoffMax}
	for ctx.Err() == nil {
		c, err := zds.Dial(ctx, m.cfg.Socket)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			m.count(func(s *Stats) { s.ConnectErrors++ })
			d := wait.next()
			m.log.Warn("agent can't be reached", "socket", m.cfg.Socket, "error", err, "retry_in", d)
			sleep(ctx, d)
			continue
		}
		m.count(func(s *Stats) { s.Connects++ })
		answered, err := m.talk(ctx, c)
		c.Close()
		m.setReady(false)
		if _, broken := errors.AsType[*ProtocolError](err); broken {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		m.log.Warn("agent is gone; its pods stay up", "socket", m.cfg.Socket, "error", err)
		if answered {
			wait.reset()
			continue // at once
		}
		sleep(ctx, wait.next()) // a peer that accepts and hangs up must not make us spin
	}
	return nil
}

// incoming is one packet, or the error instead of it.
type incoming struct {
	req zds.Request
	ns  *sys.FD // owned by whoever holds the value
	err error
}

// talk serves one connection to its end. It reports whether a request was
// answered on it.
func (m *Manager) talk(ctx context.Context, c *zds.Conn) (answered bool, err error) {
	m.named, m.complete = map[string]struct{}{}, false
	m.dropPending()
	if err := c.SendHello(zds.Hello{Version: zds.V1, Modes: m.cfg.Modes}, time.Now().Add(answerLimit)); err != nil {
		m.count(func(s *Stats) { s.HelloErrors++ })
		return false, fmt.Errorf("hello: %w", err)
	}
	in := make(chan incoming)
	done := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() { readRequests(c, in, done) })
	defer func() {
		close(done)
		c.Close()
		reader.Wait()
	}()

	retry := time.NewTimer(m.cfg.Retry)
	retry.Stop()
	armed := false
	for {
		var got incoming
		select {
		case <-ctx.Done():
			return answered, nil
		case <-retry.C:
			armed = false
			m.startPending(ctx)
			m.setReady(m.complete && !m.anyPending())
		case got = <-in:
			if ctx.Err() != nil { // draining comes before any request
				closeFD(got.ns)
				return answered, nil
			}
			if got.err != nil {
				return answered, m.readFailed(c, got.err)
			}
			failure, err := m.handle(ctx, got.req, got.ns)
			if err != nil {
				m.count(func(s *Stats) { s.ProtocolErrors++ })
				m.setReady(false)
				_ = m.answer(c, fmt.Sprintf("failure to process message : %v", err)) // it ends here either way
				return answered, &ProtocolError{Err: err}
			}
			m.setReady(m.complete && !m.anyPending())
			if err := m.answer(c, failure); err != nil {
				return answered, err
			}
			answered = true
		}
		if !armed && m.anyPending() {
			retry.Reset(m.cfg.Retry)
			armed = true
		}
	}
}

// readRequests passes on what comes in until the connection fails or done is
// closed. It owns a descriptor until somebody has taken it.
func readRequests(c *zds.Conn, in chan<- incoming, done <-chan struct{}) {
	for {
		var got incoming
		got.req, got.ns, got.err = c.ReadRequest()
		select {
		case in <- got:
		case <-done:
			closeFD(got.ns)
			return
		}
		if got.err != nil {
			return
		}
	}
}

// readFailed tells the agent of a packet that could not be read. Nothing is said
// to one that is gone.
func (m *Manager) readFailed(c *zds.Conn, err error) error {
	if errors.Is(err, io.EOF) {
		return err
	}
	m.count(func(s *Stats) { s.ReadErrors++ })
	if errors.Is(err, zds.ErrMalformed) {
		_ = m.answer(c, fmt.Sprintf("failure to read message : %v", err)) // the connection ends here either way
	}
	return err
}

func (m *Manager) answer(c *zds.Conn, failure string) error {
	if err := c.Respond(failure, time.Now().Add(answerLimit)); err != nil {
		m.count(func(s *Stats) { s.AnswerErrors++ })
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}

func closeFD(f *sys.FD) {
	if f != nil {
		f.Close()
	}
}

// backoff doubles from min to max, each wait moved by up to a fifth so that the
// proxies of many nodes don't march in step.
type backoff struct{ min, max, cur time.Duration }

func (b *backoff) reset() { b.cur = 0 }

func (b *backoff) next() time.Duration {
	b.cur = min(max(2*b.cur, b.min), b.max)
	return b.cur + time.Duration((rand.Float64()-0.5)*0.4*float64(b.cur))
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
