package node_test

import (
	"fmt"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/node"
)

// TestLabDirectCase7Cookies has the pod answer every SYN with a cookie, also the
// application's own: the ACK that brings it back is no SYN, and still finds its
// listener.
func TestLabDirectCase7Cookies(t *testing.T) {
	s := newScene(t, node.Config{})
	for _, p := range []*lab.Space{s.pod, s.peer} {
		if err := p.SetSysctl("net.ipv4.tcp_syncookies", "2"); err != nil { // both families
			t.Fatal(err)
		}
	}
	s.each(t, func(t *testing.T, v variant) {
		e := v.listen(t, appPort)
		for _, k := range []struct {
			name    string
			from    *lab.Space
			by      *lab.Space
			out, in uint64
			cookies int // that the pod takes back
		}{
			{"out", v.pod, v.host, 1, 0, 1},
			{"in", v.host, v.pod, 0, 1, 2}, // the application gives one to the proxy, too
			{"pod to pod", v.pod, v.peer, 1, 1, 1},
			{"self", v.pod, v.pod, 0, 0, 1},
		} {
			t.Run(k.name, func(t *testing.T) {
				before := kernelCounters(t, v.pod)["TcpExt.SyncookiesRecv"]
				v.captured(t, k.out, k.in, func() {
					j := e.connect(t, k.from, v.app(), v.at(k.by, appPort), k.by)
					j.talk()
					j.finish()
				})
				if n := kernelCounters(t, v.pod)["TcpExt.SyncookiesRecv"] - before; n != k.cookies {
					t.Errorf("the pod took %d cookies back; want %d", n, k.cookies)
				}
			})
		}
	})
}

// TestLabDirectCase7Flood leaves 200 half-open connections on a listener of the
// proxy, many more than fit its backlog, in each direction: five clients that
// come then are served at once, by the proxy, and nobody reaches the application
// past it.
func TestLabDirectCase7Flood(t *testing.T) {
	const (
		backlog  = 64
		halfOpen = 200
		clients  = 5
	)
	s := bareScene(t)
	for _, p := range []*lab.Space{s.pod, s.peer} {
		if err := p.SetSysctl("net.core.somaxconn", "64"); err != nil {
			t.Fatal(err)
		}
	}
	first := uint16(1024) // source port of the next flood: what an earlier one left takes no part
	s.each(t, func(t *testing.T, v variant) {
		v.serve(t, node.Config{}) // with listeners that nothing hangs on
		e := v.listen(t, appPort)
		for _, k := range []struct {
			name     string
			from, by *lab.Space
			out, in  uint64
		}{{"out", v.pod, v.host, 1, 0}, {"in", v.host, v.pod, 0, 1}} {
			t.Run(k.name, func(t *testing.T) {
				to := v.at(k.by, appPort)
				// Or the flooder's kernel would reset what it knows nothing of.
				ignored := v.watch(t, k.from, "input", "drop", rowOf(to, v.at(k.from, 0))+fmt.Sprintf(" tcp dport %d-%d", first, first+halfOpen-1))
				var flood []lab.Segment
				for i := range uint16(halfOpen) {
					flood = append(flood, lab.Segment{From: v.at(k.from, first+i), To: to, Seq: uint32(i) << 16, Flags: lab.SYN})
				}
				first += halfOpen
				if err := k.from.Forge(flood...); err != nil {
					t.Fatal(err)
				}
				eventually(t, "an answer to each SYN", func() bool { return ignored.count() >= halfOpen })
				if n := inState(t, v.pod, "syn-recv"); n < backlog {
					t.Errorf("%d connections are half open; want the backlog full, %d", n, backlog)
				}
				before := kernelCounters(t, v.pod)["TcpExt.SyncookiesRecv"]
				v.captured(t, clients*k.out, clients*k.in, func() {
					for range clients {
						j := e.connect(t, k.from, v.app(), to, k.by)
						if peer := addrOf(j.server.RemoteAddr()).Port(); k.in == 1 && !spoofRange(peer) {
							t.Errorf("the application was reached from port %d, past the proxy", peer)
						}
						j.talk()
						j.finish()
					}
				})
				if n := kernelCounters(t, v.pod)["TcpExt.SyncookiesRecv"] - before; n != clients {
					t.Errorf("%d of %d clients came with a cookie", n, clients)
				}
			})
		}
	})
}
