package relay_test

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/end"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/relay"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

// figures are the metrics of a loop at one moment.
func figures(t testing.TB, l *loop.Loop) (m metric.Set) {
	t.Helper()
	onloop.Do(t, l, func() { m = l.Metrics })
	return m
}

// A result is what a pair told at its end.
type result struct {
	why    flow.CloseReason
	err    error
	counts flow.Counts
}

// A flowing is a pair between two connections over loopback. The far sides,
// client and server, are the test's.
type flowing struct {
	client, server *net.TCPConn
	*life
	ended chan result
	told  atomic.Int32
}

// A life is what of a flow is on a loop; a flow that is frozen and thawed has
// another one.
type life struct {
	l    *loop.Loop
	ends [2]end.Socket
	pair relay.Pair
}

// Relayed keeps the result.
func (f *flowing) Relayed(why flow.CloseReason, err error) {
	if f.ends[0].FD().Valid() || f.ends[1].FD().Valid() {
		err = errors.Join(err, errors.New("told before both ends were closed"))
	}
	f.told.Add(1)
	f.ended <- result{why, err, f.pair.Counts()}
}

// join makes a flow on l. opts are for both connections.
func join(t testing.TB, l *loop.Loop, cfg relay.Config, opts testkit.TCPOptions) *flowing {
	t.Helper()
	f := prepare(t, l, opts)
	onloop.Do(t, l, func() { f.pair.Join(l, &cfg, &f.ends[0], &f.ends[1], f) })
	return f
}

// prepare makes both connections and registers their ends, which nobody serves
// yet.
func prepare(t testing.TB, l *loop.Loop, opts testkit.TCPOptions) *flowing {
	t.Helper()
	f := &flowing{life: &life{l: l}, ended: make(chan result, 2)}
	for i, far := range []**net.TCPConn{&f.client, &f.server} {
		conn, near := testkit.TCPPair(t, opts)
		*far = conn
		near.MoveTo(f.ends[i].FD())
		onloop.Do(t, l, func() {
			if err := f.ends[i].Register(l, end.Side(i), nobody{}, true); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() {
		onloop.Do(t, f.l, func() {
			if f.told.Load() == 0 {
				f.pair.Abort(flow.CloseDrain)
			}
		})
		if n := f.told.Load(); n != 1 {
			t.Errorf("the end of the flow was told %d times; want once", n)
		}
		checkEmpty(t, l)
		checkEmpty(t, f.l)
	})
	return f
}

// checkEmpty fails when a loop on which no flow lives has something of one.
func checkEmpty(t testing.TB, l *loop.Loop) {
	t.Helper()
	onloop.Do(t, l, func() {
		for g := range metric.Gauge(metric.NumGauges) {
			if n := l.Metrics.Level(g); n != 0 {
				t.Errorf("%s is %d after the end", g.Describe().Name, n)
			}
		}
		if n := l.Blocks.Lent(); n != 1 {
			t.Errorf("%d blocks are lent after the end; want the loop's own", n)
		}
		if n := l.Pipes.Lent(); n != 0 {
			t.Errorf("%d pipes are lent after the end", n)
		}
	})
}

// nobody is the peer of ends that are not joined yet.
type nobody struct{}

func (nobody) Readable()                     {}
func (nobody) Writable()                     {}
func (nobody) Ended(flow.CloseReason, error) {}

// wait returns how the flow ended.
func (f *flowing) wait(t testing.TB) result {
	t.Helper()
	return testkit.Receive(t, testkit.Wait, "the flow ends", f.ended)
}
