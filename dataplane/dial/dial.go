// Package dial makes connections for flows: non-blocking connect with mark,
// source address, source-port choice and a deadline.
//
// A Maker gives sockets that were made inside the pod, Ports chooses their
// source port, and a Dialing connects. The result goes to Dialed, on the loop.
// Owns: Maker its spare sockets; a Dialing borrows its session's socket.
// Threads: Maker and Ports on the pod's home loop, a Dialing on the flow's.
package dial

import (
	"errors"
	"net/netip"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/end"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// The errors that a connect can end with, besides those of the kernel.
var (
	// ErrTimeout: no answer until the deadline.
	ErrTimeout = errors.New("no answer to the connect")
	// ErrSilent: no answer within the time in which one on the same machine
	// comes for sure; another source port may do better.
	ErrSilent = errors.New("no answer from an application on this machine")
)

// Dialed is told, once, how a connect ended. err is nil when it is up.
type Dialed interface{ Dialed(err error) }

// A Dialing is one connect in progress. It is embedded in its session; the zero
// value is idle.
type Dialing struct {
	loop     *loop.Loop
	result   Dialed
	timer    *loop.Timer   // its owner's
	deadline time.Duration // by the loop's clock
	silent   bool          // the timer is for ErrSilent
}

// Start connects sock, which was set up and perhaps bound, to to, and registers
// it on l. patience is how long it may take; silence, if not 0, how long
// without any answer before ErrSilent; timer is the caller's, borrowed until the
// end of the connect. An error that comes at once is returned,
// and Dialed is not called.
func (d *Dialing) Start(l *loop.Loop, sock *end.Socket, to netip.AddrPort, patience, silence time.Duration, timer *loop.Timer, result Dialed) error {
	l.Metrics.Inc(metric.Dials)
	if err := sys.Connect(sock.FD(), to); err != nil && err != sys.EINPROGRESS {
		return err
	}
	if err := sock.Register(l, end.Server, d, false); err != nil {
		return err
	}
	d.wait(l, l.Now()+patience, silence, timer, result)
	return nil
}

// Resume goes on with a connect that was frozen with left to go; its socket was
// registered with d as its peer.
func (d *Dialing) Resume(l *loop.Loop, left time.Duration, timer *loop.Timer, result Dialed) {
	d.wait(l, l.Now()+left, 0, timer, result)
}

func (d *Dialing) wait(l *loop.Loop, deadline, silence time.Duration, timer *loop.Timer, result Dialed) {
	d.loop, d.timer, d.result, d.deadline = l, timer, result, deadline
	d.silent = silence > 0
	if !d.silent {
		silence = deadline - l.Now()
	}
	l.Arm(d.timer, silence, d)
}

// Left is how much of its time the connect still has.
func (d *Dialing) Left() time.Duration { return max(0, d.deadline-d.loop.Now()) }

// Stop forgets the connect; the session closes the socket.
func (d *Dialing) Stop() {
	if d.loop != nil {
		d.loop.Disarm(d.timer)
		d.loop = nil
	}
}

// Readable is of no interest before the connection is relayed: the socket
// remembers it.
func (d *Dialing) Readable() {}

// Writable says that the connection is up.
func (d *Dialing) Writable() { d.tell(nil) }

// Ended says that the connect failed.
func (d *Dialing) Ended(_ flow.CloseReason, err error) {
	if err == nil {
		err = sys.ECONNRESET
	}
	d.tell(err)
}

// Fire ends a connect that takes too long.
func (d *Dialing) Fire() {
	if d.silent {
		d.loop.Metrics.Inc(metric.DialSilent)
		d.tell(ErrSilent)
		return
	}
	d.tell(ErrTimeout)
}

// Panicked ends the flow whose connect was being served.
func (d *Dialing) Panicked(v any) {
	if p, ok := d.result.(loop.Panicker); ok {
		p.Panicked(v)
	}
}

func (d *Dialing) tell(err error) {
	if d.loop == nil {
		return
	}
	d.Stop()
	d.result.Dialed(err)
}
