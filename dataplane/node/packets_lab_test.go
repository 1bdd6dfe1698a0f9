package node_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
)

// A watch is an nf_tables row in a namespace that counts packets and may drop
// them. It takes no part in what our table does.
type watch struct {
	t     *testing.T
	space *lab.Space
	table string
}

// watch adds a row at a hook, such as "prerouting priority -300", until t ends.
// Its rules match with any of rows and then do what follows the first match.
func (s *scene) watch(t *testing.T, in *lab.Space, hook, verdict string, rows ...string) *watch {
	t.Helper()
	s.tables++
	w := &watch{t: t, space: in, table: fmt.Sprintf("watch%d", s.tables)}
	if !strings.Contains(hook, "priority") {
		hook += " priority 0"
	}
	var script strings.Builder
	fmt.Fprintf(&script, "add table inet %s; add chain inet %[1]s c { type filter hook %s; }", w.table, hook)
	for _, row := range rows {
		fmt.Fprintf(&script, "; add rule inet %s c %s counter %s", w.table, row, verdict)
	}
	lab.Output(t, in, "nft", script.String())
	t.Cleanup(w.stop)
	return w
}

var packetCount = regexp.MustCompile(`counter packets (\d+)`)

// count is how many packets have matched.
func (w *watch) count() (n int) {
	w.t.Helper()
	for _, m := range packetCount.FindAllStringSubmatch(lab.Output(w.t, w.space, "nft", "list", "table", "inet", w.table), -1) {
		k, err := strconv.Atoi(m[1])
		if err != nil {
			w.t.Fatal(err)
		}
		n += k
	}
	return n
}

// stop takes the rows away; once.
func (w *watch) stop() {
	if w.table == "" {
		return
	}
	name := w.table
	w.table = ""
	// The test's own context has ended when this runs as a cleanup.
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := w.space.Output(ctx, "nft", "delete", "table", "inet", name); err != nil {
		w.t.Error(err)
	}
}

// kernelCounters reads what the kernel counts in a namespace, such as
// "TcpExt.TCPWinProbe" or "Icmp6InPktTooBigs".
func kernelCounters(t *testing.T, s *lab.Space) map[string]int {
	t.Helper()
	counters := map[string]int{}
	var pairs, six []byte
	err := s.Do(func() error {
		for _, file := range []struct {
			name string
			into *[]byte
		}{{"netstat", &pairs}, {"snmp", &pairs}, {"snmp6", &six}} {
			text, err := os.ReadFile("/proc/thread-self/net/" + file.name)
			if err != nil && file.into == &pairs {
				return err // snmp6 is not there without IPv6
			}
			*file.into = append(*file.into, text...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, value string) {
		if n, err := strconv.Atoi(value); err == nil {
			counters[name] = n
		}
	}
	// A line of names, then one of values, both with the same head.
	lines := strings.Split(strings.TrimSpace(string(pairs)), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		names, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
		for k := 1; k < min(len(names), len(values)); k++ {
			put(strings.TrimSuffix(names[0], ":")+"."+names[k], values[k])
		}
	}
	for line := range strings.Lines(string(six)) {
		if f := strings.Fields(line); len(f) == 2 {
			put(f[0], f[1])
		}
	}
	return counters
}

// rowOf matches TCP from one address to another; a port of 0 matches all.
func rowOf(from, to netip.AddrPort) string {
	header := "ip"
	if from.Addr().Is6() {
		header = "ip6"
	}
	row := header + " saddr " + from.Addr().String() + " " + header + " daddr " + to.Addr().String() + " meta l4proto tcp"
	if from.Port() != 0 {
		row += fmt.Sprintf(" tcp sport %d", from.Port())
	}
	if to.Port() != 0 {
		row += fmt.Sprintf(" tcp dport %d", to.Port())
	}
	return row
}
