package node_test

import (
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/node"
)

// TestLabDirectCase14 binds an application to eth0, which keeps its packets from
// being turned round to the proxy: they don't leave either. So it reaches nobody,
// and nobody reaches it.
func TestLabDirectCase14(t *testing.T) {
	s := newScene(t, node.Config{})
	s.eachSetting(t, func(t *testing.T, v variant) {
		e := v.listen(t, appPort)
		var bound []attempt
		var rows []string
		for _, v := range v.both() {
			a := attempt{v.pod, v.app(), v.at(v.host, appPort)}
			a.how.Device = "eth0"
			bound = append(bound, a)
			rows = append(rows, rowOf(v.at(v.pod, 0), a.to))
		}
		left := v.watch(t, v.node, "prerouting priority -300", "", rows...)
		v.captured(t, 0, 0, func() { unanswered(t, bound...) })
		if n := left.count(); n != 0 {
			t.Errorf("%d packets left the pod", n)
		}
		for _, v := range v.both() {
			// The count counts: it sees what the proxy sends for one that is not bound.
			j := e.connect(t, v.pod, v.app(), v.at(v.host, appPort), v.host)
			j.talk()
			j.finish()
		}
		if left.count() == 0 {
			t.Error("packets of the proxy were not counted")
		}

		// A listener: what the proxy sends it comes in by lo in the name of the client,
		// and the kernel takes it for eth0's. The answers can't be turned round.
		for _, v := range v.both() {
			how := v.app()
			how.Device = "eth0"
			at := v.at(v.pod, appPort+1)
			ln, err := v.pod.Listen(at, how)
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			before := v.figures(t)
			answers := v.watch(t, v.node, "prerouting priority -300", "", rowOf(at, v.at(v.host, 0))+" tcp dport 10240-32767")
			c := dialIn(t, v.host, lab.Socket{}, at)
			eventually(t, "the proxy to try another source port", func() bool {
				now := v.figures(t)
				return now.Count(metric.DialSilent) > before.Count(metric.DialSilent)
			})
			if n := answers.count(); n != 0 {
				t.Errorf("%d answers of the application left the pod", n)
			}
			(&joined{t: t}).reset(c)
			v.closedBy(t, before, flow.Inbound, flow.CloseClientGone, 1)
			if err := ln.SetDeadline(time.Now()); err != nil {
				t.Fatal(err)
			}
			if c, err := ln.Accept(); err == nil {
				c.Close()
				t.Error("the application was reached")
			}
		}
	})
}
