package dial_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/dial"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

// elsewhere is an address of nobody in the lab's pod.
var elsewhere = map[sys.Family]netip.Addr{
	sys.IPv4: netip.MustParseAddr("198.51.100.222"),
	sys.IPv6: netip.MustParseAddr("2001:db8::222"),
}

// Each kind of socket can do what it is for, and nothing else.
func TestLabMakerKinds(t *testing.T) {
	testkit.NoLeaks(t)
	pod := lab.New(t, lab.Simple(1, 1, 0)).Nodes[0].Pods[0]
	l := onloop.Start(t, 0, loop.Config{PanicEnds: true})
	var m *dial.Maker
	onloop.Do(t, l, func() { m = dial.NewMaker(l, pod.Handle().FD(), dial.Options{Congestion: "reno"}) })
	for _, tt := range []struct {
		name    string
		kind    dial.Kind
		foreign error // binding to somebody else's address
		port    bool  // a port is chosen by bind, if none is asked for
		twice   error // binding to a port that another of them has
		unpaced bool  // runs the congestion control that was asked for
	}{
		{name: "network", kind: dial.Network, port: false, twice: sys.EADDRINUSE},
		{name: "spoofed", kind: dial.Spoofed, port: true, unpaced: true},
		{name: "application", kind: dial.Application, foreign: sys.EADDRNOTAVAIL, port: true, twice: sys.EADDRINUSE, unpaced: true},
	} {
		for family, foreign := range elsewhere {
			own := pod.Addr4
			if family == sys.IPv6 {
				own = pod.Addr6
			}
			get := func() *sys.FD {
				f := new(sys.FD)
				t.Cleanup(func() { f.Close() })
				onloop.Do(t, l, func() {
					if err := m.Get(f, tt.kind, family); err != nil {
						t.Errorf("%s: %v", tt.name, err)
					}
				})
				return f
			}
			if err := sys.Bind(get(), netip.AddrPortFrom(foreign, 0)); err != tt.foreign {
				t.Errorf("%s: bind to %v: %v; want %v", tt.name, foreign, err, tt.foreign)
			}
			f := get()
			if err := sys.Bind(f, netip.AddrPortFrom(own, 0)); err != nil {
				t.Errorf("%s: bind to %v: %v", tt.name, own, err)
			}
			if at, err := sys.LocalAddr(f); err != nil || at.Addr() != own || (at.Port() != 0) != tt.port {
				t.Errorf("%s: bound to %v, %v; a port chosen: want %v", tt.name, at, err, tt.port)
			}
			first, second := get(), get()
			if err := sys.Bind(first, netip.AddrPortFrom(own, 20000+uint16(tt.kind))); err != nil {
				t.Errorf("%s: bind to a port: %v", tt.name, err)
			}
			if err := sys.Bind(second, netip.AddrPortFrom(own, 20000+uint16(tt.kind))); err != tt.twice {
				t.Errorf("%s: bind to a port twice: %v; want %v", tt.name, err, tt.twice)
			}
			first.Close()
			if name, err := sys.Congestion(second); err != nil || (name == "reno") != tt.unpaced {
				t.Errorf("%s: congestion control %s, %v; chosen for it: want %v", tt.name, name, err, tt.unpaced)
			}
		}
	}
	onloop.Do(t, l, m.Close)
}

// Sockets are made ahead in batches that double as long as they are wanted, and
// are let go when they are not.
func TestLabMakerAhead(t *testing.T) {
	testkit.NoLeaks(t)
	pod := lab.New(t, lab.Simple(1, 1, 0)).Nodes[0].Pods[0]
	l := onloop.Start(t, 0, loop.Config{PanicEnds: true})
	var m *dial.Maker
	made := func() (n uint64, spare int64) {
		onloop.Do(t, l, func() { n, spare = l.Metrics.Count(metric.SocketsMade), l.Metrics.Level(metric.SpareSocket) })
		return n, spare
	}
	take := func() {
		onloop.Do(t, l, func() {
			var f sys.FD
			if err := m.Get(&f, dial.Spoofed, sys.IPv4); err != nil {
				t.Error(err)
			}
			f.Close()
		})
	}
	onloop.Do(t, l, func() { m = dial.NewMaker(l, pod.Handle().FD(), dial.Options{}) })
	for i, want := range []uint64{1, 3, 3, 7, 7, 7, 7, 15, 15, 15, 15, 15, 15, 15, 15, 23} {
		take()
		if n, spare := made(); n != want || spare != int64(n)-int64(i)-1 {
			t.Fatalf("after %d were taken %d are made and %d spare; want %d made", i+1, n, spare, want)
		}
	}
	testkit.Eventually(t, testkit.Wait, "those that nobody wants are let go", func() bool {
		_, spare := made()
		return spare == 0
	})
	before, _ := made()
	take()
	if n, spare := made(); n != before+1 || spare != 0 {
		t.Errorf("after a rest %d were made and %d are spare; want one for the one that was wanted", n-before, spare)
	}
	for range 3 {
		take()
	}
	onloop.Do(t, l, m.Close)
	if _, spare := made(); spare != 0 {
		t.Errorf("%d are spare after Close", spare)
	}
}

// A pod that is gone, or whose congestion control may not be used, gives an error
// that says so and leaves nothing open.
func TestLabMakerFails(t *testing.T) {
	testkit.NoLeaks(t)
	pod := lab.New(t, lab.Simple(1, 1, 0)).Nodes[0].Pods[0]
	l := onloop.Start(t, 0, loop.Config{PanicEnds: true})
	onloop.Do(t, l, func() {
		var f sys.FD
		m := dial.NewMaker(l, pod.Handle().FD(), dial.Options{Congestion: "none-such"})
		defer m.Close()
		if err := m.Get(&f, dial.Spoofed, sys.IPv4); !errors.Is(err, sys.ENOENT) || f.Valid() {
			t.Errorf("unknown congestion control: %v, made %v; want ENOENT", err, f.Valid())
		}
		if err := m.Get(&f, dial.Network, sys.IPv4); err != nil { // it does not use it
			t.Error(err)
		}
		f.Close()
		gone := dial.NewMaker(l, new(sys.FD), dial.Options{})
		defer gone.Close()
		if err := gone.Get(&f, dial.Network, sys.IPv4); !errors.Is(err, sys.EBADF) || f.Valid() {
			t.Errorf("no namespace: %v, made %v; want EBADF", err, f.Valid())
		}
	})
	onloop.Do(t, l, func() {
		if n := l.Metrics.Level(metric.SpareSocket); n != 0 {
			t.Errorf("%d sockets are spare after both makers are closed", n)
		}
	})
}
