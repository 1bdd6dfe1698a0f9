package node_test

import (
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/dial"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/node"
)

// fewPorts is a node whose chooser has the ports from first to last.
func fewPorts(first, last uint16) node.Config {
	var cfg node.Config
	cfg.Session.Ports = []dial.Range{{First: first, Last: last}}
	return cfg
}

// fromPort dials the pod's application from a port of the host, and returns the port
// that the application sees.
func (v variant) fromPort(t *testing.T, e *ears, port uint16) (*joined, uint16) {
	t.Helper()
	j := e.connect(t, v.host, v.from(v.addr(v.host), port), v.at(v.pod, appPort), v.pod)
	j.talk()
	peer := addrOf(j.server.RemoteAddr())
	if peer.Addr() != v.addr(v.host) {
		t.Errorf("the application saw %v; want %v", peer, v.addr(v.host))
	}
	return j, peer.Port()
}

// refusedFrom dials the pod's application from a port of the host; no source port
// is left for it, so the client is reset and the application sees nothing.
func (v variant) refusedFrom(t *testing.T, port uint16) {
	t.Helper()
	before := v.figures(t)
	if err := v.resetOf(t, v.host, v.from(v.addr(v.host), port), v.at(v.pod, appPort)); err != nil {
		t.Error(err)
	}
	v.closedBy(t, before, flow.Inbound, flow.CloseSourcePorts, 1)
}

// TestLabDirectCase8Own has clients use ports from which the chooser draws: it
// never takes the client's own, and when there is no other one the client is
// reset instead of being dialled for unspoofed.
func TestLabDirectCase8Own(t *testing.T) {
	const only = 17001
	s := newScene(t, fewPorts(only, only))
	s.each(t, func(t *testing.T, v variant) {
		e := v.listen(t, appPort)
		v.refusedFrom(t, only)
		for _, client := range []uint16{only + 1, only + 2} { // of either parity
			j, seen := v.fromPort(t, e, client)
			if seen != only {
				t.Errorf("the application saw port %d; want the only one, %d", seen, only)
			}
			j.finish()
			v.left(t, 0)
		}
	})
}

// left waits until no more than n flows are open, and those that have ended have
// given their source ports back.
func (v variant) left(t *testing.T, n int64) {
	t.Helper()
	eventually(t, "flows to end", func() bool {
		set := v.figures(t)
		return set.Level(metric.OpenFlows) <= n
	})
	// Each asks all loops: the first waits for the turn in which the flow ended, the
	// second for what that turn posted to the pod's home loop.
	v.figures(t)
	v.figures(t)
}

// TestLabDirectCase8Others has the chooser pass over the ports of connections
// that live: those that the client itself made to the same application, and those
// that the proxy made in its name. To another application they are free.
func TestLabDirectCase8Others(t *testing.T) {
	const first = 17001 // and two more: two odd, one even
	s := newScene(t, fewPorts(first, first+2))
	s.each(t, func(t *testing.T, v variant) {
		e := v.listen(t, appPort)
		skips := v.figures(t)
		a, seen := v.fromPort(t, e, first)
		if seen != first+1 {
			t.Errorf("the first client, on %d, was given %d; want the other parity, %d", first, seen, first+1)
		}
		b, seen := v.fromPort(t, e, first+101)
		if seen != first+2 {
			t.Errorf("the second client was given %d; want %d, as %d is a client's", seen, first+2, first)
		}
		if now := v.figures(t); now.Count(metric.SourcePortSkips) == skips.Count(metric.SourcePortSkips) {
			t.Error("no port was counted as passed over")
		}
		v.refusedFrom(t, first+103)

		// The same ports towards another application of the same pod.
		other := v.listen(t, appPort+2)
		c := other.connect(t, v.host, v.from(v.addr(v.host), first+105), v.at(v.pod, appPort+2), v.pod)
		c.talk()

		for _, j := range []*joined{a, b} {
			j.talk()
		}
		a.finish()
		v.left(t, 2)
		d, seen := v.fromPort(t, e, first+103)
		if seen != first && seen != first+1 {
			t.Errorf("with the first flow ended a client was given %d", seen)
		}
		for _, j := range []*joined{b, c, d} {
			j.talk()
			j.finish()
		}
		v.left(t, 0)
	})
}

// TestLabDirectCase8Reverse has a client pick the port under which the proxy
// already talks to the application in its name: only that newcomer fails, in
// silence, until the old flow ends.
func TestLabDirectCase8Reverse(t *testing.T) {
	s := newScene(t, node.Config{})
	client := uint16(40001)
	s.eachSetting(t, func(t *testing.T, v variant) {
		e := v.listen(t, appPort)
		client++
		var olds []*joined
		var ports []uint16
		var newcomers []attempt
		for _, v := range v.both() {
			old, port := v.fromPort(t, e, client)
			olds, ports = append(olds, old), append(ports, port)
			newcomers = append(newcomers, attempt{v.host, v.from(v.addr(v.host), port), v.at(v.pod, appPort)})
		}
		unanswered(t, newcomers...)
		for i, v := range v.both() {
			olds[i].talk()
			other, _ := v.fromPort(t, e, client+1000)
			other.finish()
			olds[i].finish()
			v.left(t, int64(len(olds)-1-i))
			j, _ := v.fromPort(t, e, ports[i])
			j.finish()
		}
	})
}
