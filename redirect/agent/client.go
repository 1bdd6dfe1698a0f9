package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// An Answer is what the agent said to one request.
type Answer struct {
	Pods  []Status // of a list
	Stats Stats    // with a list
	Note  string   // what a person should know besides
}

// A Refusal is an answer that says no.
type Refusal struct{ Text string }

func (e *Refusal) Error() string { return e.Text }

// graceForAnswer is how much longer than its request the client waits, for an
// agent that takes back what it could not finish.
const graceForAnswer = 15 * time.Second

// Ask sends r to the agent that listens at socket, with a copy of ns unless that
// is nil, and waits for the answer as long as r says. What the agent refuses is a
// *Refusal.
func Ask(ctx context.Context, socket string, r Request, ns *sys.FD) (Answer, error) {
	r.Version = ProtocolVersion
	b, err := json.Marshal(r)
	if err != nil {
		return Answer{}, err
	}
	if _, err := ParseRequest(b); err != nil { // the agent would say the same
		return Answer{}, err
	}
	var d net.Dialer
	dialed, err := d.DialContext(ctx, "unixpacket", socket)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return Answer{}, asRoot(err)
	case err != nil:
		return Answer{}, fmt.Errorf("%w; is the agent running (sluice-redirect agent)?", err)
	}
	c := dialed.(*net.UnixConn)
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Now()) })
	defer stop()
	if err := c.SetDeadline(time.Now().Add(r.limit() + graceForAnswer)); err != nil {
		return Answer{}, err
	}
	if ns == nil {
		err = sys.SendPacket(c, b)
	} else {
		err = sys.SendPacket(c, b, ns)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("ask the agent: %w", err)
	}
	return readAnswer(c)
}

func readAnswer(c *net.UnixConn) (Answer, error) {
	var all Answer
	buf := make([]byte, maxResponse+1)
	for {
		n, fd, err := sys.ReceivePacket(c, buf)
		if fd != nil {
			fd.Close()
			err = errors.New("it came with a descriptor")
		}
		if errors.Is(err, io.EOF) {
			err = errors.New("the agent ended before it answered; list shows what it did when it runs again")
		}
		if err != nil {
			return Answer{}, fmt.Errorf("answer of the agent: %w", err)
		}
		r, err := ParseResponse(buf[:n])
		if err != nil {
			return Answer{}, fmt.Errorf("answer of the agent: %w", err)
		}
		switch {
		case r.Error != "":
			return Answer{}, &Refusal{r.Error}
		case r.Pod != nil:
			all.Pods = append(all.Pods, *r.Pod)
		}
		if r.Stats != nil {
			all.Stats = *r.Stats
		}
		if r.Note != "" {
			all.Note = r.Note
		}
		if !r.More {
			return all, nil
		}
	}
}
