package listener_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/listener"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

// A guest is a connection as an acceptor got it.
type guest struct {
	path       flow.Path
	tuple      flow.Tuple
	congestion string
}

// A door is an acceptor that answers what it is sent, at once, and closes.
type door struct {
	guests chan guest
	panics bool
}

func (d *door) Accepted(path flow.Path, fd *sys.FD, tuple flow.Tuple) {
	if d.panics {
		d.panics = false
		panic("no entry")
	}
	g := guest{path: path, tuple: tuple}
	g.congestion, _ = sys.Congestion(fd)
	d.guests <- g
	sys.Send(fd, []byte("served"))
	fd.Close()
}

// open makes and serves a listener in the pod.
func open(t testing.TB, l *loop.Loop, pod *lab.Space, opts listener.Options, to listener.Acceptor) (n *listener.Listener) {
	t.Helper()
	onloop.Do(t, l, func() {
		if err := l.Enter(pod.Handle().FD(), func() (err error) {
			n, err = listener.Open(l, opts, to)
			return err
		}); err != nil {
			t.Error(err)
			return
		}
		if err := n.Serve(); err != nil {
			t.Error(err)
		}
	})
	if n == nil {
		t.FailNow()
	}
	t.Cleanup(func() { onloop.Do(t, l, n.Close) })
	return n
}

// served dials from the pod, and reads what the door says.
func served(t testing.TB, from *lab.Space, to netip.AddrPort) (client netip.AddrPort) {
	t.Helper()
	c, err := from.Dial(t.Context(), to, lab.Socket{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if text, err := io.ReadAll(c); err != nil || string(text) != "served" {
		t.Errorf("dial of %v: read %q, %v", to, text, err)
	}
	return c.LocalAddr().(*net.TCPAddr).AddrPort()
}

// Both families reach one listener, also where IPv6 is switched off, and what is
// set on the listener holds for what it accepts.
func TestLabAccept(t *testing.T) {
	testkit.NoLeaks(t)
	topology := lab.Simple(1, 2, 0)
	topology.Nodes[0].Pods[1].NoIPv6 = true
	pods := lab.New(t, topology).Nodes[0].Pods
	l := onloop.Start(t, 0, loop.Config{PanicEnds: true})
	for _, tt := range []struct {
		name string
		pod  *lab.Space
		opts listener.Options
		dsts []netip.Addr
	}{
		{"dual stack", pods[0].Space, listener.Options{}, []netip.Addr{pods[0].Addr4, pods[0].Addr6, netip.MustParseAddr("::1")}},
		{"IPv4 only", pods[0].Space, listener.Options{IPv4Only: true}, []netip.Addr{pods[0].Addr4}},
		{"without IPv6", pods[1].Space, listener.Options{}, []netip.Addr{pods[1].Addr4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &door{guests: make(chan guest, 10)}
			tt.opts.Path, tt.opts.Port, tt.opts.Congestion = flow.Inbound, 15006, "reno"
			tt.opts.NoReuse = true
			n := open(t, l, tt.pod, tt.opts, d)
			for _, dst := range tt.dsts {
				to := netip.AddrPortFrom(dst, 15006)
				client := served(t, tt.pod, to)
				want := guest{path: flow.Inbound, tuple: flow.Tuple{Client: client, Dst: to}, congestion: "reno"}
				if got := testkit.Receive(t, testkit.Wait, "a guest", d.guests); got != want {
					t.Errorf("accepted %+v; want %+v", got, want)
				}
			}
			onloop.Do(t, l, n.Close)
			onloop.Do(t, l, n.Close) // does nothing
			if c, err := tt.pod.Dial(t.Context(), netip.AddrPortFrom(tt.dsts[0], 15006), lab.Socket{}); err == nil {
				c.Close()
				t.Error("the closed listener accepted")
			}
		})
	}
}

// NAT hides the destination from the accepted socket; connection tracking knows
// it. A port of ours that nothing was done to is the destination itself.
func TestLabOriginalDestination(t *testing.T) {
	testkit.NoLeaks(t)
	l := lab.New(t, lab.Simple(1, 1, 0))
	pod := l.Nodes[0].Pods[0].Space
	lab.Output(t, pod, "nft", `add table inet test; add chain inet test out { type nat hook output priority -100; };
		add rule inet test out tcp dport 80 redirect to :15001; add rule inet test out tcp dport 15008 redirect to :15001`)
	lp := onloop.Start(t, 0, loop.Config{PanicEnds: true})
	for _, onlyIPv4 := range []bool{false, true} {
		d := &door{guests: make(chan guest, 10)}
		n := open(t, lp, pod, listener.Options{Path: flow.Outbound, Port: 15001, IPv4Only: onlyIPv4}, d)
		for _, to := range []string{"203.0.113.77:80", "203.0.113.77:15008", "[2001:db8::77]:80"} {
			dst := netip.MustParseAddrPort(to)
			if onlyIPv4 && dst.Addr().Is6() {
				continue
			}
			client := served(t, pod, dst)
			if got := testkit.Receive(t, testkit.Wait, "a guest", d.guests); got.tuple != (flow.Tuple{Client: client, Dst: dst}) {
				t.Errorf("accepted %v; want %v", got.tuple, flow.Tuple{Client: client, Dst: dst})
			}
		}
		straight := pod.At4(15001)
		served(t, pod, straight)
		if got := testkit.Receive(t, testkit.Wait, "a guest", d.guests); got.tuple.Dst != straight {
			t.Errorf("a straight dial seems to go to %v; want %v", got.tuple.Dst, straight)
		}
		onloop.Do(t, lp, n.Close)
	}
}

// Those who wait in the queue when the listener closes are served.
func TestLabCloseServesTheQueue(t *testing.T) {
	testkit.NoLeaks(t)
	pod := lab.New(t, lab.Simple(1, 1, 0)).Nodes[0].Pods[0].Space
	l := onloop.Start(t, 0, loop.Config{PanicEnds: true})
	const clients = 200
	d := &door{guests: make(chan guest, clients)}
	n := open(t, l, pod, listener.Options{Port: 15001}, d)
	conns := make([]*net.TCPConn, clients)
	onloop.Do(t, l, func() { // nothing is accepted in the meantime
		for i := range conns {
			c, err := pod.Dial(t.Context(), pod.At4(15001), lab.Socket{})
			if err != nil {
				t.Error(err)
				return
			}
			conns[i] = c
		}
		n.Close()
	})
	for i, c := range conns {
		if c == nil {
			t.FailNow()
		}
		if text, err := io.ReadAll(c); err != nil || string(text) != "served" {
			t.Errorf("client %d read %q, %v; want to be served", i, text, err)
		}
		c.Close()
	}
}

// A process that has no descriptor left rests, and goes on when it has: nobody is
// turned away.
func TestLabOutOfDescriptors(t *testing.T) {
	testkit.NoLeaks(t)
	pod := lab.New(t, lab.Simple(1, 1, 0)).Nodes[0].Pods[0].Space
	l := onloop.Start(t, 0, loop.Config{PanicEnds: true})
	d := &door{guests: make(chan guest, 1)}
	open(t, l, pod, listener.Options{Port: 15001}, d)
	var client sys.FD
	defer client.Close()
	if err := pod.Do(func() error { return sys.Socket(&client, sys.IPv4) }); err != nil {
		t.Fatal(err)
	}
	soft, _, err := sys.RaiseFileLimit()
	if err != nil {
		t.Fatal(err)
	}
	defer sys.SetFileLimit(soft)
	if err := sys.SetFileLimit(uint64(client.Raw() + 32)); err != nil {
		t.Fatal(err)
	}
	var all []*sys.FD
	free := func() {
		for _, f := range all {
			f.Close()
		}
		all = nil
	}
	defer free()
	for {
		f, err := client.Dup()
		if err == sys.EMFILE {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	if err := sys.Connect(&client, pod.At4(15001)); err != sys.EINPROGRESS {
		t.Fatal(err)
	}
	var turns uint64
	testkit.Eventually(t, testkit.Wait, "the listener has found out", func() (ok bool) {
		onloop.Do(t, l, func() { ok = l.Metrics.Count(metric.AcceptErrors) >= 2; turns = l.Metrics.Count(metric.Turns) })
		return ok
	})
	if turns > 1000 {
		t.Errorf("%d turns of the loop until the second attempt; want it to rest", turns)
	}
	free()
	testkit.Receive(t, testkit.Wait, "the client is accepted", d.guests)
}

// A fault in the acceptor resets that connection; the next one is served.
func TestLabAcceptorPanics(t *testing.T) {
	testkit.NoLeaks(t)
	pod := lab.New(t, lab.Simple(1, 1, 0)).Nodes[0].Pods[0].Space
	l := onloop.Start(t, 0, loop.Config{})
	d := &door{guests: make(chan guest, 1), panics: true}
	open(t, l, pod, listener.Options{Port: 15001}, d)
	c, err := pod.Dial(t.Context(), pod.At4(15001), lab.Socket{})
	if err == nil {
		_, err = io.ReadAll(c)
		c.Close()
	}
	if sys.ErrnoOf(err) != sys.ECONNRESET {
		t.Errorf("dialled or read: %v; want a reset", err)
	}
	served(t, pod, pod.At4(15001))
	testkit.Receive(t, testkit.Wait, "a guest", d.guests)
}

// What can't be set is named, with what it needs.
func TestLabOpenFails(t *testing.T) {
	testkit.NoLeaks(t)
	pod := lab.New(t, lab.Simple(1, 1, 0)).Nodes[0].Pods[0].Space
	l := onloop.Start(t, 0, loop.Config{PanicEnds: true})
	taken, err := pod.Listen(netip.MustParseAddrPort("[::]:15001"), lab.Socket{})
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, tt := range []struct {
		opts listener.Options
		want error
		text string
	}{
		{listener.Options{Port: 15001}, sys.EADDRINUSE, "listen on port 15001: bind: "},
		{listener.Options{Port: 15002, Congestion: "none-such"}, sys.ENOENT, "listen on port 15002: congestion control none-such: "},
	} {
		onloop.Do(t, l, func() {
			err := l.Enter(pod.Handle().FD(), func() error {
				_, err := listener.Open(l, tt.opts, nil)
				return err
			})
			if !errors.Is(err, tt.want) || !strings.HasPrefix(err.Error(), tt.text) {
				t.Errorf("%v; want %q and %v", err, tt.text, tt.want)
			}
		})
	}
}
