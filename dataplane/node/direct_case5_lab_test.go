package node_test

import (
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/node"
)

// TestLabDirectCase5 loses the last ACK of an application that has closed first:
// what is left of its socket, in TIME_WAIT, answers the FIN that the proxy sends
// again. So no socket of the proxy stays in LAST_ACK.
func TestLabDirectCase5(t *testing.T) {
	s := newScene(t, node.Config{})
	s.eachSetting(t, func(t *testing.T, v variant) {
		e := v.listen(t, appPort)
		var all []proxied
		for _, v := range v.both() {
			all = append(all, v.applications(t, e)...)
		}
		var rows []string
		for _, p := range all {
			rows = append(rows, p.row())
			p.app.Close()
			p.wantEOF(p.other, 0)
		}
		answers := v.watch(t, v.pod, "input priority -20", "", suffixed(rows, " tcp flags & (rst|ack) == ack")...)
		resets := v.watch(t, v.pod, "input priority -20", "", suffixed(rows, " tcp flags & rst == rst")...)
		lost := v.watch(t, v.pod, "input", "drop", rows...)
		for _, p := range all {
			p.other.Close()
		}
		eventually(t, "the last ACKs to be lost", func() bool {
			return lost.count() >= len(all) && inState(t, v.pod, "last-ack") == len(all)
		})
		before := answers.count()
		lost.stop()
		eventually(t, "LAST_ACK to end", func() bool { return inState(t, v.pod, "last-ack") == 0 })
		if got := answers.count() - before; got < len(all) {
			t.Errorf("%d answers to repeated FINs of %d sockets", got, len(all))
		}
		if n := resets.count(); n != 0 {
			t.Errorf("%d resets of what should be in TIME_WAIT", n)
		}
	})
}

// inState counts the TCP sockets of a namespace in a state, as ss names it.
func inState(t *testing.T, s *lab.Space, state string) int {
	t.Helper()
	return strings.Count(lab.Output(t, s, "ss", "-Htan", "state", state), "\n")
}

func suffixed(rows []string, suffix string) []string {
	var all []string
	for _, r := range rows {
		all = append(all, r+suffix)
	}
	return all
}
