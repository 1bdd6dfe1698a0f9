package node_test

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/node"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// The tests named TestLabDirectCaseN show case N of docs/capture.md.

const (
	// appPort is where applications listen: within the range that the chooser of
	// source ports draws from.
	appPort = 20080
	// noRetry is how long an answer may take when no SYN was sent twice, for
	// which the kernel waits 1 s.
	noRetry = 900 * time.Millisecond
	// silence is how long an attempt must stay without an answer to count as not
	// answered.
	silence = 400 * time.Millisecond
)

// A scene is two captured pods on one node and a host outside.
type scene struct {
	lab                   *lab.Lab
	node, pod, peer, host *lab.Space
	proxy                 *node.Node
	tables                int // made by watch
}

// newScene makes a scene that a node in this process serves.
func newScene(t *testing.T, cfg node.Config) *scene {
	t.Helper()
	s := bareScene(t)
	s.serve(t, cfg)
	return s
}

// bareScene makes a scene whose pods nobody serves or captures yet.
func bareScene(t *testing.T) *scene {
	t.Helper()
	testkit.NoLeaks(t)
	l := lab.New(t, lab.Simple(1, 2, 1))
	n := l.Nodes[0]
	return &scene{lab: l, node: n.Space, pod: n.Pods[0].Space, peer: n.Pods[1].Space, host: l.Hosts[0].Space}
}

// serve has the pods served and captured in mode direct until t ends.
func (s *scene) serve(t *testing.T, cfg node.Config) {
	t.Helper()
	s.serveBehind(t, captureDirect, cfg)
}

func (s *scene) serveBehind(t *testing.T, capture func(*testing.T, *lab.Pod), cfg node.Config) {
	t.Helper()
	if cfg.Loops == 0 {
		cfg.Loops = 2
	}
	s.proxy = inProcessBehind(t, capture, cfg, s.lab.Nodes[0].Pods...)
}

// A variant is a way in which a case must pass: no case may depend on the
// sysctls that spare work, or on marks that an application does not set.
type variant struct {
	*scene
	v6      bool
	sysctls string // value of tcp_fwmark_accept and of both fwmark_reflect
	mark    int    // SO_MARK of the application's sockets, in and above our bits; 0 is none
}

func (v variant) family() string {
	if v.v6 {
		return "IPv6"
	}
	return "IPv4"
}

// setting is the variant but for its family.
func (v variant) setting() string {
	name := "sysctls " + v.sysctls
	if v.mark != 0 {
		name += " own mark"
	}
	return name
}

// settle sets the sysctls in both pods.
func (v variant) settle(t *testing.T) {
	t.Helper()
	for _, s := range []*lab.Space{v.pod, v.peer} {
		for _, name := range []string{"net.ipv4.tcp_fwmark_accept", "net.ipv4.fwmark_reflect", "net.ipv6.fwmark_reflect"} {
			if err := s.SetSysctl(name, v.sysctls); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// each runs test in every variant.
func (s *scene) each(t *testing.T, test func(t *testing.T, v variant)) {
	for _, v6 := range []bool{false, true} {
		t.Run(variant{v6: v6}.family(), func(t *testing.T) {
			s.eachSetting(t, func(t *testing.T, v variant) {
				v.v6 = v6
				test(t, v)
			})
		})
	}
}

// eachSetting runs test in every variant of one family; for tests that do both
// families at once, because they have to wait.
func (s *scene) eachSetting(t *testing.T, test func(t *testing.T, v variant)) {
	for _, sysctls := range []string{"1", "0"} {
		for _, mark := range []int{0, 0xab077} {
			v := variant{scene: s, sysctls: sysctls, mark: mark}
			t.Run(v.setting(), func(t *testing.T) {
				v.settle(t)
				test(t, v)
			})
		}
	}
}

// both is the variant in both families.
func (v variant) both() []variant {
	four, six := v, v
	four.v6, six.v6 = false, true
	return []variant{four, six}
}

// app is how an application makes its sockets.
func (v variant) app() lab.Socket { return lab.Socket{Mark: v.mark} }

// from is app with an address of its own.
func (v variant) from(a netip.Addr, port uint16) lab.Socket {
	how := v.app()
	how.Local, how.ReuseAddr = netip.AddrPortFrom(a, port), true
	return how
}

// pick is the address of the variant's family.
func (v variant) pick(four, six netip.Addr) netip.Addr {
	if v.v6 {
		return six
	}
	return four
}

func (v variant) addr(s *lab.Space) netip.Addr   { return v.pick(s.Addr4, s.Addr6) }
func (v variant) second(s *lab.Space) netip.Addr { return v.pick(s.Second4, s.Second6) }

func (v variant) at(s *lab.Space, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(v.addr(s), port)
}

// figures are what the proxy has counted.
func (s *scene) figures(t *testing.T) metric.Set {
	t.Helper()
	set, err := s.proxy.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// captured runs fn and fails t unless the proxy has opened as many flows of each
// path as are wanted.
func (s *scene) captured(t *testing.T, out, in uint64, fn func()) {
	t.Helper()
	before := s.figures(t)
	fn()
	after := s.figures(t)
	gotOut := after.Opened[flow.Outbound] - before.Opened[flow.Outbound]
	gotIn := after.Opened[flow.Inbound] - before.Opened[flow.Inbound]
	if gotOut != out || gotIn != in {
		t.Errorf("the proxy opened %d flows out and %d in; want %d and %d", gotOut, gotIn, out, in)
	}
}

// closedBy waits until a flow has ended for a reason since before.
func (s *scene) closedBy(t *testing.T, before metric.Set, p flow.Path, why flow.CloseReason, n uint64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d flows %v to end with %v", n, p, why), func() bool {
		now := s.figures(t)
		return now.Closed[p][why]-before.Closed[p][why] >= n
	})
}
