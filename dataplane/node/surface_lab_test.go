package node_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/node"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// body is the answer of a port of the proxy.
func (s *shipped) body(method string, port uint16, path string) string {
	s.t.Helper()
	var b strings.Builder
	if err := ask(s.node.Space, method, port, path, func(line string) { b.WriteString(line + "\n") }); err != nil {
		s.t.Errorf("%s: %v", path, err)
	}
	return b.String()
}

// accessLine is what these tests read of a flow's line.
type accessLine struct {
	Level, Time, Scope, Message string
	SrcAddr                     string `json:"src.addr"`
	SrcWorkload                 string `json:"src.workload"`
	SrcNamespace                string `json:"src.namespace"`
	DstAddr                     string `json:"dst.addr"`
	DstWorkload                 string `json:"dst.workload"`
	DstNamespace                string `json:"dst.namespace"`
	Direction, Error, Reason    string
	Sent                        uint64 `json:"bytes_sent"`
	Received                    uint64 `json:"bytes_recv"`
	Source                      string `json:"source.addr"`
}

// lines are the flows in the proxy's log.
func (s *shipped) lines() []accessLine {
	s.t.Helper()
	var all []accessLine
	for text := range strings.Lines(s.sluice.Log()) {
		var l accessLine
		if json.Unmarshal([]byte(text), &l) == nil && l.Scope == "access" {
			all = append(all, l)
		}
	}
	return all
}

// TestLabSurface has one pod talk to another on the same node, 11 bytes there and
// 22 back, and looks at the flow from everywhere that an operator can: while it is
// open and when it has ended.
func TestLabSurface(t *testing.T) {
	l := lab.New(t, lab.Simple(1, 2, 0))
	s := newShipped(t, settings{loops: 2}, l.Nodes[0])
	client, server := l.Nodes[0].Pods[0], l.Nodes[0].Pods[1]
	s.enroll(client)
	s.enroll(server)
	at := server.At4(7000)
	j := joinThrough(t, client.Space, server.Space, at, false)
	j.send(j.client, 11)
	j.take(j.server, 11)
	j.send(j.server, 22)
	j.take(j.client, 22)
	from := j.client.LocalAddr().String()

	var listed struct {
		Open  int
		Flows []struct {
			Pod, Path, Client, Destination, Upstream, Source, State string
			Up                                                      uint64 `json:"up_bytes"`
			Down                                                    uint64 `json:"down_bytes"`
			UpEngine                                                string `json:"up_engine"`
		}
	}
	if err := json.Unmarshal([]byte(s.body(http.MethodGet, 15000, "/flows?format=json")), &listed); err != nil {
		t.Fatal(err)
	}
	if listed.Open != 2 || len(listed.Flows) != 2 {
		t.Errorf("flows: %+v; want the two halves of one connection", listed)
	}
	paths := map[string]bool{}
	for _, f := range listed.Flows {
		pod := map[string]string{"outbound": "lab/" + client.Name, "inbound": "lab/" + server.Name}[f.Path]
		paths[f.Path] = true
		if f.Pod != pod || f.Destination != at.String() || f.Upstream != at.String() || f.State != "relaying" ||
			f.Up != 11 || f.Down != 22 || f.UpEngine != "copy" || !strings.HasPrefix(f.Source, client.Addr4.String()) {
			t.Errorf("a flow is %+v", f)
		}
		if f.Path == "outbound" && f.Client != from {
			t.Errorf("the client is %s, want %s", f.Client, from)
		}
	}
	if len(paths) != 2 {
		t.Errorf("paths %v", paths)
	}
	if text := s.body(http.MethodGet, 15000, "/flows"); !strings.HasSuffix(text, "\n2 of 2 flows\n") {
		t.Errorf("the table: %q", text)
	}
	var dump struct {
		WorkloadState map[string]struct {
			State       string
			Info        struct{ Name, Namespace, ServiceAccount string }
			Connections struct {
				Inbound, Outbound []struct{ Src, ActualDst, OriginalDst, Protocol string }
			}
		}
	}
	if err := json.Unmarshal([]byte(s.body(http.MethodGet, 15000, "/config_dump")), &dump); err != nil {
		t.Fatal(err)
	}
	if len(dump.WorkloadState) != 2 {
		t.Errorf("workloadState: %+v", dump.WorkloadState)
	}
	for uid, p := range dump.WorkloadState {
		in, out := p.Connections.Inbound, p.Connections.Outbound
		if p.State != "Up" || p.Info.Namespace != "lab" || len(in)+len(out) != 1 {
			t.Errorf("pod %s is %+v", uid, p)
			continue
		}
		if len(out) == 1 && (p.Info.Name != client.Name || out[0].Src != from || out[0].OriginalDst != at.String()) {
			t.Errorf("pod %s is %+v", uid, p)
		}
	}
	s.wantIstio("opened", 1)
	s.wantIstio("closed", 0)
	for _, reporter := range []string{"source", "destination"} {
		if n := s.figure(fmt.Sprintf("istio_tcp_sockets_open{reporter=%q}", reporter)); n != 1 {
			t.Errorf("%s: %v sockets open", reporter, n)
		}
	}

	j.shut(j.client)
	j.wantEOF(j.server, 0)
	j.shut(j.server)
	j.wantEOF(j.client, 0)
	testkit.Eventually(t, patience, "both lines of the flow", func() bool { return len(s.lines()) == 2 })
	s.wantIstio("opened", 1)
	s.wantIstio("closed", 1)
	for reporter, path := range map[string]string{"source": "outbound", "destination": "inbound"} {
		labels := fmt.Sprintf(`{connection_security_policy="unknown",reporter=%q,request_protocol="tcp",response_flags="-"}`, reporter)
		if up, down := s.figure("istio_tcp_received_bytes_total"+labels), s.figure("istio_tcp_sent_bytes_total"+labels); up != 11 || down != 22 {
			t.Errorf("%s: received %v, sent %v; want 11 and 22", path, up, down)
		}
	}
	if n := s.figure("istio_build{component=\"ztunnel\",tag=\"unknown\"}"); n != 1 {
		t.Errorf("istio_build is %v", n)
	}
	for _, got := range s.lines() {
		want := accessLine{
			Level: "info", Time: got.Time, Scope: "access", Message: "connection complete", SrcAddr: got.SrcAddr, DstAddr: at.String(),
			Direction: got.Direction, Reason: "eof", Source: got.Source,
		}
		if got.Direction == "outbound" {
			want.SrcAddr, want.SrcWorkload, want.SrcNamespace = from, client.Name, "lab"
			want.Sent, want.Received, want.Source = 11, 22, client.Addr4.String()
		} else {
			want.DstWorkload, want.DstNamespace = server.Name, "lab"
			want.Sent, want.Received = 22, 11
		}
		if got != want || !strings.HasPrefix(got.Source, client.Addr4.String()) {
			t.Errorf("the log has %+v; want %+v", got, want)
		}
	}
	if got := s.lines(); got[0].Direction == got[1].Direction {
		t.Errorf("two lines %s", got[0].Direction)
	}
}

// wantIstio compares a core counter of both reporters.
func (s *shipped) wantIstio(what string, n float64) {
	s.t.Helper()
	for _, reporter := range []string{"source", "destination"} {
		name := fmt.Sprintf(`istio_tcp_connections_%s_total{connection_security_policy="unknown",reporter=%q,request_protocol="tcp",response_flags="-"}`, what, reporter)
		if got := s.figure(name); got != n {
			s.t.Errorf("%s is %v, want %v", name, got, n)
		}
	}
}

// TestLabLogLevels changes what is logged while flows come and go: a refused one is
// an error, and stays when the others are switched off.
func TestLabLogLevels(t *testing.T) {
	l := lab.New(t, lab.Simple(1, 1, 1))
	s := newShipped(t, settings{loops: 1}, l.Nodes[0])
	pod, host := l.Nodes[0].Pods[0], l.Hosts[0]
	s.enroll(pod)
	echo(t, host.Space, host.At4(7000))
	refused := func() {
		t.Helper()
		j, err := pod.Dial(t.Context(), host.At4(7001), lab.Socket{})
		if err == nil { // the proxy accepts first
			(&joined{t: t}).wantReset(j)
			j.Close()
		}
	}
	if got := s.body(http.MethodPost, 15000, "/logging?level=access=error"); got != "current log level is access=error,info\n" {
		t.Errorf("logging: %q", got)
	}
	if err := exchangeOnce(pod.Space, host.At4(7000), []byte{1}, []byte{0}, 1); err != nil {
		t.Fatal(err)
	}
	refused()
	testkit.Eventually(t, patience, "the line of the refused flow", func() bool { return len(s.lines()) > 0 })
	if got := s.lines(); len(got) != 1 || got[0].Reason != "refused" || got[0].Level != "error" ||
		got[0].Error != "destination refused the connection: connection refused" {
		t.Errorf("lines: %+v", got)
	}
	flag := `{connection_security_policy="unknown",reporter="source",request_protocol="tcp",response_flags="CONNECT"}`
	if n := s.figure("istio_tcp_connections_failed_total" + flag); n != 1 {
		t.Errorf("%v failed", n)
	}
	s.body(http.MethodPost, 15000, "/logging?reset")
	if err := exchangeOnce(pod.Space, host.At4(7000), []byte{1}, []byte{0}, 1); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, patience, "the line of another flow", func() bool { return len(s.lines()) == 2 })
}

// TestLabNoSource leaves source addresses to the kernel: an application sees its
// own pod, a server outside the pod's address all the same.
func TestLabNoSource(t *testing.T) {
	l := lab.New(t, lab.Simple(1, 1, 1))
	pod, host := l.Nodes[0].Pods[0], l.Hosts[0]
	inProcess(t, node.Config{Loops: 1, NoSource: true}, pod)
	for _, tt := range []struct {
		name     string
		from, to *lab.Space
		at       netip.AddrPort
		want     netip.Addr
	}{
		{"in", host.Space, pod.Space, pod.At4(7000), pod.Addr4},
		{"out", pod.Space, host.Space, host.At4(7000), pod.Addr4},
	} {
		j := joinThrough(t, tt.from, tt.to, tt.at, false)
		if got := j.server.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap(); got != tt.want {
			t.Errorf("%s: the server sees %v, want %v", tt.name, got, tt.want)
		}
		j.send(j.client, 10)
		j.take(j.server, 10)
		j.client.Close()
		j.server.Close()
	}
}
