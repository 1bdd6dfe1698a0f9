package node_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/node"
	"github.com/sluice-mesh/sluice/redirect"
)

// capturePods captures both pods, whoever serves them.
func (s *scene) capturePods(t *testing.T) {
	t.Helper()
	for _, p := range s.lab.Nodes[0].Pods {
		captureDirect(t, p)
	}
}

// failsClosed dials out of the pod, into it, and to another pod, in both families:
// nobody answers, and no packet of it gets out.
func (v variant) failsClosed(t *testing.T) {
	t.Helper()
	v.listen(t, appPort)
	var all []attempt
	var rows []string
	for _, v := range v.both() {
		all = append(all,
			attempt{v.pod, v.app(), v.at(v.host, appPort)},
			attempt{v.host, lab.Socket{}, v.at(v.pod, appPort)},
			attempt{v.pod, v.app(), v.at(v.peer, appPort)})
		rows = append(rows, rowOf(v.at(v.pod, 0), v.at(v.host, appPort)), rowOf(v.at(v.pod, 0), v.at(v.peer, appPort)))
	}
	out := v.watch(t, v.node, "prerouting priority -300", "", rows...)
	unanswered(t, all...)
	if n := out.count(); n != 0 {
		t.Errorf("%d packets left the pod", n)
	}
}

// TestLabDirectCase15NoProxy captures pods that nobody serves.
func TestLabDirectCase15NoProxy(t *testing.T) {
	s := bareScene(t)
	s.capturePods(t)
	s.eachSetting(t, func(t *testing.T, v variant) { v.failsClosed(t) })
}

// TestLabDirectCase15NotTransparent has a proxy listen that lacks IP_TRANSPARENT.
func TestLabDirectCase15NotTransparent(t *testing.T) {
	s := bareScene(t)
	s.capturePods(t)
	for _, p := range []*lab.Space{s.pod, s.peer} {
		for _, port := range []uint16{redirect.PortOutbound, redirect.PortInbound} {
			ln, err := p.Listen(netip.AddrPortFrom(netip.IPv6Unspecified(), port), lab.Socket{Mark: redirect.MarkProxy})
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
		}
	}
	s.eachSetting(t, func(t *testing.T, v variant) { v.failsClosed(t) })
}

// TestLabDirectCase15Leftovers dials again from a port of which the kernel keeps
// something when the proxy is gone: a connection in TIME_WAIT, or a half-open one.
// Either would be found by tproxy, and then lead TCP to the application.
func TestLabDirectCase15Leftovers(t *testing.T) {
	s := bareScene(t)
	port := uint16(1100) // of the next client
	s.eachSetting(t, func(t *testing.T, v variant) {
		e := v.listen(t, appPort)
		var again []attempt
		var rows []string
		t.Run("served", func(t *testing.T) {
			v.serve(t, node.Config{})
			for _, v := range v.both() {
				for _, k := range []struct{ from, by *lab.Space }{{v.pod, v.host}, {v.host, v.pod}} {
					to := v.at(k.by, appPort)
					waiting := attempt{k.from, v.from(v.addr(k.from), port), to}
					j := e.connect(t, k.from, waiting.how, to, k.by)
					j.shut(j.server) // first, so that TIME_WAIT is the proxy's
					j.wantEOF(j.client, 0)
					j.shut(j.client)
					j.wantEOF(j.server, 0)

					half := attempt{k.from, v.from(v.addr(k.from), port+1), to}
					// Or the kernel, which knows nothing of it, would reset it.
					answers := v.watch(t, k.from, "input", "drop", rowOf(to, half.how.Local))
					if err := k.from.Forge(lab.Segment{From: half.how.Local, To: to, Flags: lab.SYN}); err != nil {
						t.Fatal(err)
					}
					eventually(t, "an answer to the SYN", func() bool { return answers.count() > 0 })
					again = append(again, waiting, half)
					rows = append(rows, rowOf(waiting.how.Local, to), rowOf(half.how.Local, to))
					port += 2
				}
			}
		})
		// Nobody listens now but the applications, whom nobody may reach: no SYN gets
		// as far as to TCP, even where the kernel could not route the answer.
		reached := v.watch(t, v.pod, "input priority 0", "", suffixed(rows, " tcp flags & (syn|ack) == syn")...)
		unanswered(t, again...)
		if n := reached.count(); n != 0 {
			t.Errorf("%d SYNs reached TCP", n)
		}
	})
}

// TestLabDirectCase15Cookies loses the ACK that brings a cookie back until the
// proxy is gone: the application's listener would take it, cookies being the
// host's and not a listener's.
func TestLabDirectCase15Cookies(t *testing.T) {
	s := bareScene(t)
	if err := s.pod.SetSysctl("net.ipv4.tcp_syncookies", "2"); err != nil {
		t.Fatal(err)
	}
	s.each(t, func(t *testing.T, v variant) {
		e := v.listen(t, appPort)
		for _, k := range []struct {
			name     string
			from, by *lab.Space
		}{{"out", v.pod, v.host}, {"in", v.host, v.pod}} {
			t.Run(k.name, func(t *testing.T) {
				to := v.at(k.by, appPort)
				var lost *watch
				var j joined
				t.Run("served", func(inner *testing.T) {
					v.serve(inner, node.Config{})
					// A listener takes no cookie unless it gave some itself, lately.
					e.connect(inner, v.pod, v.app(), v.at(v.pod, appPort), v.pod).finish()
					lost = v.watch(t, k.from, "output", "drop", rowOf(v.at(k.from, 0), to)+" tcp flags & (syn|ack) == ack")
					j = joined{t: t, client: dialIn(t, k.from, v.app(), to)}
				})
				arrived := v.watch(t, v.pod, "prerouting priority -300", "", rowOf(addrOf(j.client.LocalAddr()), to))
				lost.stop()
				j.send(j.client, 1)
				eventually(t, "the cookie to come back", func() bool { return arrived.count() > 0 })
				if text := lab.Output(t, v.pod, "ss", "-Htan", "state", "established", "sport", "= :20080"); strings.Contains(text, ":") {
					t.Errorf("past the proxy: %s", text)
				}
				j.reset(j.client) // or it would go on, with the next proxy
			})
		}
	})
}
