package zds

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// A Conn is one connection between an agent and a proxy. One goroutine may read
// from it while another writes.
type Conn struct {
	c   *net.UnixConn
	in  [MaxPacket + 1]byte // one more than a message may have: a longer one shows
	out []byte
}

// Dial connects to the agent that listens at path.
func Dial(ctx context.Context, path string) (*Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unixpacket", path)
	if err != nil {
		return nil, err
	}
	return &Conn{c: c.(*net.UnixConn)}, nil
}

// Close ends the connection, also under a call that waits on it.
func (c *Conn) Close() error { return c.c.Close() }

// Peer asks the kernel who is at the other end.
func (c *Conn) Peer() (sys.Peer, error) { return sys.PeerOf(c.c) }

// SendHello says what this proxy serves; it comes before anything else.
func (c *Conn) SendHello(h Hello, deadline time.Time) error {
	b, err := h.Append(c.out[:0])
	if err != nil {
		return err
	}
	return c.send(b, nil, deadline)
}

// ReadRequest waits for the agent's next request, however long that takes. An
// Add comes with the descriptor of the pod's namespace, which is the caller's
// then; every other kind comes without one. io.EOF: the agent is gone. An error
// that wraps ErrMalformed is about this packet; any other is about the
// connection.
func (c *Conn) ReadRequest() (Request, *sys.FD, error) {
	b, fd, err := c.receive(time.Time{})
	if err != nil {
		return Request{}, nil, err
	}
	r, err := ParseRequest(b)
	switch {
	case err != nil:
	case r.Kind == Add && fd == nil:
		err = fmt.Errorf("%v %q came without a descriptor (no control message): %w", r.Kind, r.UID, ErrMalformed)
	case r.Kind != Add && fd != nil:
		err = fmt.Errorf("%v %q came with a descriptor (unexpected control message): %w", r.Kind, r.UID, ErrMalformed)
	}
	if err != nil {
		if fd != nil {
			fd.Close()
		}
		return Request{}, nil, err
	}
	return r, fd, nil
}

// Respond answers the last request; failure is empty when it was carried out.
func (c *Conn) Respond(failure string, deadline time.Time) error {
	b, err := Response{Error: failure}.Append(c.out[:0])
	if err != nil {
		return err
	}
	return c.send(b, nil, deadline)
}

// ReadHello waits for the first packet of a proxy.
func (c *Conn) ReadHello(deadline time.Time) (Hello, error) {
	b, fd, err := c.receive(deadline)
	if err != nil {
		return Hello{}, err
	}
	if fd != nil {
		fd.Close()
		return Hello{}, fmt.Errorf("hello came with a descriptor: %w", ErrMalformed)
	}
	return ParseHello(b)
}

// SendRequest asks the proxy for something, with a copy of ns when it is an Add.
// The next answer is the one to this.
func (c *Conn) SendRequest(r Request, ns *sys.FD, deadline time.Time) error {
	if (r.Kind == Add) != (ns != nil) {
		return fmt.Errorf("%v %q: a descriptor goes with an add, and only with one", r.Kind, r.UID)
	}
	b, err := r.Append(c.out[:0])
	if err != nil {
		return err
	}
	if err := c.send(b, ns, deadline); err != nil {
		return fmt.Errorf("send %v %q: %w", r.Kind, r.UID, err)
	}
	return nil
}

// ReadResponse waits for the proxy's next answer, until the deadline unless that
// is zero. io.EOF: the proxy is gone.
func (c *Conn) ReadResponse(deadline time.Time) (Response, error) {
	b, fd, err := c.receive(deadline)
	if err != nil {
		return Response{}, err
	}
	if fd != nil {
		fd.Close()
		return Response{}, fmt.Errorf("answer came with a descriptor: %w", ErrMalformed)
	}
	return ParseResponse(b)
}

// Ask sends one request and waits for the answer. An error is one of the
// connection: whatever it was, the next answer can't be told from a late one, so
// close. What the proxy could not do is in the Response.
func (c *Conn) Ask(r Request, ns *sys.FD, deadline time.Time) (Response, error) {
	if err := c.SendRequest(r, ns, deadline); err != nil {
		return Response{}, err
	}
	a, err := c.ReadResponse(deadline)
	if err != nil {
		return Response{}, fmt.Errorf("answer to %v %q: %w", r.Kind, r.UID, err)
	}
	return a, nil
}

func (c *Conn) send(b []byte, fd *sys.FD, deadline time.Time) error {
	c.out = b[:0]
	if err := c.c.SetWriteDeadline(deadline); err != nil {
		return err
	}
	if fd == nil {
		return sys.SendPacket(c.c, b)
	}
	return sys.SendPacket(c.c, b, fd)
}

// receive lends the packet until the next call.
func (c *Conn) receive(deadline time.Time) ([]byte, *sys.FD, error) {
	if err := c.c.SetReadDeadline(deadline); err != nil {
		return nil, nil, err
	}
	n, fd, err := sys.ReceivePacket(c.c, c.in[:])
	switch {
	case errors.Is(err, sys.ErrPacketTooLong), errors.Is(err, sys.ErrControlCut), errors.Is(err, sys.ErrManyFDs):
		return nil, nil, fmt.Errorf("%w: %w", err, ErrMalformed)
	case err != nil:
		return nil, nil, err
	}
	return c.in[:n], fd, nil
}

// A Listener accepts proxies.
type Listener struct{ l *net.UnixListener }

// Listen takes over the socket at path: one that an earlier agent left there is
// removed. Only root may connect.
func Listen(path string) (*Listener, error) {
	l, err := sys.ListenPackets(path)
	if err != nil {
		return nil, err
	}
	return &Listener{l: l}, nil
}

// Accept waits for the next proxy.
func (l *Listener) Accept() (*Conn, error) {
	c, err := l.l.AcceptUnix()
	if err != nil {
		return nil, err
	}
	return &Conn{c: c}, nil
}

// Close stops listening and removes the socket's file.
func (l *Listener) Close() error { return l.l.Close() }
