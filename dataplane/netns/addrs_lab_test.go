package netns_test

import (
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

func TestLabAddrs(t *testing.T) {
	testkit.NoLeaks(t)
	pod := lab.New(t, lab.Simple(1, 1, 0)).Nodes[0].Pods[0]
	// The other end of a point-to-point link is not ours.
	lab.Output(t, pod.Space, "ip", "link", "add", "v1", "type", "veth", "peer", "name", "v2")
	lab.Output(t, pod.Space, "ip", "addr", "add", "192.0.2.101", "peer", "192.0.2.102", "dev", "v1")
	got, err := pod.Handle().Addrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range []netip.Addr{
		pod.Addr4, pod.Addr6, pod.Second4, pod.Second6,
		netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1"), netip.MustParseAddr("192.0.2.101"),
	} {
		if !got.Has(addr) {
			t.Errorf("%v is missing", addr)
		}
	}
	if got.Has(netip.MustParseAddr("192.0.2.102")) {
		t.Error("the address of the other end of a link is said to be ours")
	}
	empty, err := newNamespace(t).Addrs()
	if err != nil || empty.Len() != 0 {
		t.Errorf("a namespace whose lo is down has %d addresses, %v; want none", empty.Len(), err)
	}
}

// latest keeps the newest set that a watch told.
type latest struct {
	mu    sync.Mutex
	addrs flow.Addrs
	told  int
}

func (l *latest) set(a flow.Addrs) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.addrs = a
	l.told++
}

func (l *latest) has(a netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.addrs.Has(a)
}

func TestLabWatchAddrs(t *testing.T) {
	testkit.NoLeaks(t)
	pod := lab.New(t, lab.Simple(1, 1, 0)).Nodes[0].Pods[0]
	h, err := netns.Open(pod.Path)
	if err != nil {
		t.Fatal(err)
	}
	var seen latest
	w, err := netns.WatchAddrs(h, seen.set)
	h.Close() // it was borrowed
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if seen.told != 1 || !seen.has(pod.Addr4) {
		t.Fatalf("told %d times before the watch began, %v known: %v; want once, with the addresses",
			seen.told, pod.Addr4, seen.has(pod.Addr4))
	}
	for _, text := range []string{"192.0.2.201", "2001:db8::201"} {
		a := netip.MustParseAddr(text)
		args := []string{"addr", "add", netip.PrefixFrom(a, a.BitLen()).String(), "dev", "eth0"}
		if a.Is6() {
			args = append(args, "nodad")
		}
		lab.Output(t, pod.Space, "ip", args...)
		testkit.Eventually(t, testkit.Wait, "the watch sees "+text, func() bool { return seen.has(a) })
		args[1] = "del"
		lab.Output(t, pod.Space, "ip", slices.DeleteFunc(args, func(s string) bool { return s == "nodad" })...)
		testkit.Eventually(t, testkit.Wait, "the watch sees "+text+" go", func() bool { return !seen.has(a) })
	}
}

// More events than the kernel keeps: what was lost is asked for.
func TestLabWatchAddrsOverflow(t *testing.T) {
	testkit.NoLeaks(t)
	pod := lab.New(t, lab.Simple(1, 1, 0)).Nodes[0].Pods[0]
	gate, held := make(chan struct{}), make(chan struct{})
	var seen latest
	var first, second sync.Once
	w, err := netns.WatchAddrs(pod.Handle(), func(a flow.Addrs) {
		seen.set(a)
		start := true
		first.Do(func() { start = false })
		if start { // from the first event on: a reader that is slow
			second.Do(func() { close(held) })
			<-gate
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	lab.Output(t, pod.Space, "ip", "addr", "add", "192.0.2.200/32", "dev", "eth0")
	testkit.Receive(t, testkit.Wait, "the first event", signalled(held))
	// About 200 bytes of memory each, and more than net.core.rmem_default.
	lab.Output(t, pod.Space, "sh", "-c", `i=0; while [ $i -lt 2000 ]; do
		echo "addr add 192.0.2.201/32 dev eth0"; echo "addr del 192.0.2.201/32 dev eth0"; i=$((i+1)); done | ip -batch -`)
	lab.Output(t, pod.Space, "ip", "addr", "add", "192.0.2.202/32", "dev", "eth0")
	close(gate)
	testkit.Eventually(t, testkit.Wait, "the watch sees the last change", func() bool {
		return seen.has(netip.MustParseAddr("192.0.2.202")) && !seen.has(netip.MustParseAddr("192.0.2.201"))
	})
}

// signalled turns the closing of ch into a value.
func signalled(ch <-chan struct{}) <-chan bool {
	out := make(chan bool, 1)
	go func() { <-ch; out <- true }()
	return out
}
