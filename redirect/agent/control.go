package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

const (
	// maxClients bounds the enrolment requests that are served at once.
	maxClients = 64
	// packetWait bounds the reading and the writing of one packet.
	packetWait = 5 * time.Second
)

// serveEnroll answers requests until ctx ends.
func (a *Agent) serveEnroll(ctx context.Context, l *net.UnixListener) error {
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	var clients sync.WaitGroup
	defer clients.Wait()
	room := make(chan struct{}, maxClients)
	for {
		c, err := l.AcceptUnix()
		if ctx.Err() != nil {
			if err == nil {
				c.Close()
			}
			return nil
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("accept on the enrolment socket: %w", err)
			}
			a.count(func(s *Stats) { s.AcceptErrors++ })
			a.log.Error("accept on the enrolment socket", "error", err) // no descriptors, most likely
			pause(ctx, acceptPause)
			continue
		}
		room <- struct{}{}
		clients.Go(func() {
			a.serveClient(ctx, c)
			<-room
		})
	}
}

// serveClient carries out the one request of a connection. It takes c.
func (a *Agent) serveClient(ctx context.Context, c *net.UnixConn) {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.SetReadDeadline(time.Now()) })
	defer stop()
	r, ns, err := a.readRequest(c)
	if err != nil {
		a.count(func(s *Stats) { s.Refused++ })
		a.log.Warn("request on the enrolment socket refused", "error", err)
		a.reply(c, Response{Error: err.Error()})
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, r.limit(), fmt.Errorf("not done within %v, which is what the client waits", r.limit()))
	defer cancel()
	var last Response
	switch r.Op {
	case OpEnroll:
		last.Note, err = a.enroll(ctx, r, ns)
	case OpUnenroll:
		last.Note, err = a.unenroll(ctx, r.UID, r.Force)
	case OpList:
		for _, p := range a.Pods() {
			if !a.reply(c, Response{Pod: &p, More: true}) {
				return
			}
		}
		n := a.Stats()
		last.Stats = &n
	}
	if err != nil {
		a.count(func(s *Stats) { s.Refused++ })
		last.Error = err.Error()
	}
	a.reply(c, last)
}

// readRequest reads the request and the descriptor that came with it, which is
// the caller's then.
func (a *Agent) readRequest(c *net.UnixConn) (Request, *sys.FD, error) {
	if err := c.SetReadDeadline(time.Now().Add(packetWait)); err != nil {
		return Request{}, nil, err
	}
	buf := make([]byte, maxRequest+1) // one more than is allowed: a longer one shows
	n, fd, err := sys.ReceivePacket(c, buf)
	if err != nil {
		return Request{}, nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	// Not before: an answer to what has not been read is lost on its way.
	if err := onlyRoot(c); err != nil {
		if fd != nil {
			fd.Close()
		}
		return Request{}, nil, err
	}
	r, err := ParseRequest(buf[:n])
	if err == nil && fd != nil && r.Op != OpEnroll {
		err = fmt.Errorf("%w: a descriptor goes with %s only", ErrRequest, OpEnroll)
	}
	if err != nil {
		if fd != nil {
			fd.Close()
		}
		return Request{}, nil, err
	}
	return r, fd, nil
}

// onlyRoot refuses a client that is not root, whatever the socket's file allows.
func onlyRoot(c *net.UnixConn) error {
	peer, err := sys.PeerOf(c)
	if err != nil {
		return fmt.Errorf("%w: who asks can't be told: %w", ErrRequest, err)
	}
	if peer.UID != 0 {
		return fmt.Errorf("%w: process %d runs as user %d; only root may enrol pods", ErrRequest, peer.PID, peer.UID)
	}
	return nil
}

// reply sends one packet; a client that went away has its answer in the list.
func (a *Agent) reply(c *net.UnixConn, r Response) bool {
	err := c.SetWriteDeadline(time.Now().Add(packetWait))
	if err == nil {
		err = sys.SendPacket(c, r.encode())
	}
	if err != nil {
		a.log.Info("client of the enrolment socket went away", "error", err)
	}
	return err == nil
}
