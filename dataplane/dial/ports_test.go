package dial_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/dial"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// A kernel is a Binder that refuses some ports, as the real one does when
// somebody listens on them.
type kernel map[uint16]error

func (k kernel) TryBind(port uint16) error { return k[port] }

var (
	app    = netip.MustParseAddrPort("192.0.2.10:80")
	client = netip.MustParseAddr("198.51.100.7")
)

func from(port uint16) netip.AddrPort { return netip.AddrPortFrom(client, port) }

func TestChoosePreferences(t *testing.T) {
	small := []dial.Range{{First: 100, Last: 103}, {First: 200, Last: 201}}
	for _, tt := range []struct {
		name    string
		ranges  []dial.Range
		own     uint16
		taken   []uint16
		refused kernel
		want    []uint16 // any of these; none for "used up"
		spilled bool
	}{
		{"parity opposite to an even port", small, 4000, nil, nil, []uint16{101, 103}, false},
		{"parity opposite to an odd port", small, 4001, nil, nil, []uint16{100, 102}, false},
		{"not the client's own", small, 101, nil, nil, []uint16{100, 102}, false},
		{"not a taken one", small, 4000, []uint16{101}, nil, []uint16{103}, false},
		{"not one that somebody listens on", small, 4000, nil, kernel{101: sys.EADDRINUSE}, []uint16{103}, false},
		{"not one that is not available", small, 4000, nil, kernel{103: sys.EADDRNOTAVAIL}, []uint16{101}, false},
		{"the other range", small, 4000, []uint16{101, 103}, nil, []uint16{201}, true},
		{"then the other parity", small, 4000, []uint16{101, 103, 201}, nil, []uint16{100, 102}, true},
		{"then the other parity of the other range", small, 4000, []uint16{100, 101, 102, 103, 201}, nil, []uint16{200}, true},
		{"its own is the last", small, 200, []uint16{100, 101, 102, 103, 201}, nil, nil, true},
		{"used up", small, 4000, []uint16{100, 101, 102, 103, 200, 201}, nil, nil, true},
		{"nothing may be bound", small, 4000, nil, kernel{100: sys.EADDRINUSE, 101: sys.EADDRINUSE, 102: sys.EADDRINUSE,
			103: sys.EADDRINUSE, 200: sys.EADDRINUSE, 201: sys.EADDRINUSE}, nil, true},
		{"up to the last port there is", []dial.Range{{First: 65534, Last: 65535}}, 4000, nil, nil, []uint16{65535}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for range 4 { // wherever it starts
				p := dial.NewPorts(tt.ranges)
				for _, port := range tt.taken {
					p.Hold(from(port), app)
				}
				port, skipped, spilled, err := p.Choose(from(tt.own), app, tt.refused)
				if len(tt.want) == 0 {
					if err != sys.EADDRNOTAVAIL || port != 0 || p.Len() != len(tt.taken) {
						t.Fatalf("chose %d, %v; want EADDRNOTAVAIL", port, err)
					}
					return
				}
				found := false
				for _, w := range tt.want {
					found = found || w == port
				}
				if !found || err != nil || spilled != tt.spilled {
					t.Fatalf("chose %d, spilled %v, %v; want one of %v, %v", port, spilled, err, tt.want, tt.spilled)
				}
				if p.Len() != len(tt.taken)+1 {
					t.Errorf("%d tuples are noted; want the chosen one too", p.Len())
				}
				if skipped > len(tt.taken)+len(tt.refused)+1 {
					t.Errorf("%d ports were passed over; only %d are in use", skipped, len(tt.taken)+len(tt.refused)+1)
				}
			}
		})
	}
}

func TestChooseDefaultRanges(t *testing.T) {
	p := dial.NewPorts(nil)
	port, _, _, err := p.Choose(from(40000), app, kernel{})
	if err != nil || port < 16384 || port > 32767 || port%2 != 1 {
		t.Errorf("chose %d, %v; want an odd port of 16384 to 32767", port, err)
	}
}

// Any error but "taken" ends the search and leaves nothing noted.
func TestChooseFails(t *testing.T) {
	p := dial.NewPorts([]dial.Range{{First: 100, Last: 101}})
	if _, _, _, err := p.Choose(from(4000), app, kernel{101: sys.EACCES}); err != sys.EACCES || p.Len() != 0 {
		t.Errorf("%v, %d tuples noted; want EACCES and none", err, p.Len())
	}
}

// Tuples differ by all four of their parts, and are noted as often as they were.
func TestPortsAreTuples(t *testing.T) {
	one := []dial.Range{{First: 101, Last: 101}}
	choose := func(p *dial.Ports, c netip.AddrPort, dst netip.AddrPort) error {
		_, _, _, err := p.Choose(c, dst, kernel{})
		return err
	}
	p := dial.NewPorts(one)
	if err := choose(p, from(4000), app); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		c    netip.AddrPort
		dst  netip.AddrPort
		want error
	}{
		{"another port of the client", from(5000), app, sys.EADDRNOTAVAIL},
		{"another port of the application", from(4000), netip.MustParseAddrPort("192.0.2.10:81"), nil},
		{"another address of the pod", from(4000), netip.MustParseAddrPort("192.0.2.11:80"), nil},
		{"another client", netip.MustParseAddrPort("198.51.100.8:4000"), app, nil},
		{"IPv6", netip.MustParseAddrPort("[2001:db8::1]:4000"), netip.MustParseAddrPort("[2001:db8::2]:80"), nil},
	} {
		if err := choose(p, tt.c, tt.dst); err != tt.want {
			t.Errorf("%s: %v; want %v", tt.name, err, tt.want)
		}
	}

	p = dial.NewPorts(one)
	p.Hold(from(101), app)
	p.Hold(from(101), app)
	p.Release(from(101), app)
	if err := choose(p, from(4000), app); err != sys.EADDRNOTAVAIL {
		t.Errorf("noted twice, released once: %v; want it taken", err)
	}
	p.Release(from(101), app)
	if p.Len() != 0 {
		t.Errorf("%d tuples are noted after all were released", p.Len())
	}
	if err := choose(p, from(4000), app); err != nil {
		t.Errorf("released: %v", err)
	}
}

// A port that was given back is not taken again at once.
func TestPortsRotate(t *testing.T) {
	p := dial.NewPorts(nil)
	seen := map[uint16]int{}
	for i := range 1000 {
		port, skipped, _, err := p.Choose(from(40000), app, kernel{})
		if err != nil || skipped != 0 {
			t.Fatalf("choice %d: %v, %d passed over", i, err, skipped)
		}
		if last, again := seen[port]; again {
			t.Fatalf("port %d was chosen again after %d others", port, i-last)
		}
		seen[port] = i
		p.Release(from(port), app)
	}
}

// classes are the ports that Choose may take, in the order of preference.
func classes(ranges []dial.Range, own uint16) (all [][]uint16) {
	for _, parity := range []uint16{own&1 ^ 1, own & 1} {
		for _, r := range ranges {
			var ports []uint16
			for port := int(r.First); port <= int(r.Last); port++ {
				if uint16(port)&1 == parity && uint16(port) != own {
					ports = append(ports, uint16(port))
				}
			}
			all = append(all, ports)
		}
	}
	return all
}

// Random clients come and go on a few ports; the table must agree with a search
// through all of them.
func TestChooseAgainstSearch(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	ranges := []dial.Range{{First: 1001, Last: 1030}, {First: 2000, Last: 2011}}
	type tuple struct{ c, dst netip.AddrPort }
	p := dial.NewPorts(ranges)
	noted := map[tuple]int{}
	var live []tuple
	dsts := []netip.AddrPort{app, netip.MustParseAddrPort("192.0.2.10:81")}
	outcomes := map[string]int{}
	for range 20_000 {
		if len(live) > 0 && r.IntN(100) < 45 {
			i := r.IntN(len(live))
			p.Release(live[i].c, live[i].dst)
			if noted[live[i]]--; noted[live[i]] == 0 {
				delete(noted, live[i])
			}
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
			continue
		}
		c, dst := from(uint16(1000+r.IntN(1020))), dsts[r.IntN(2)]
		if r.IntN(4) == 0 {
			p.Hold(c, dst)
			noted[tuple{c, dst}]++
			live = append(live, tuple{c, dst})
			continue
		}
		refused := kernel{}
		for range r.IntN(4) {
			refused[uint16(1001+r.IntN(30))] = sys.EADDRINUSE
		}
		free := func(port uint16) bool {
			return refused[port] == nil && noted[tuple{from(port), dst}] == 0
		}
		want := -1 // the class that must be drawn from
		for i, ports := range classes(ranges, c.Port()) {
			for _, port := range ports {
				if want < 0 && free(port) {
					want = i
				}
			}
		}
		port, _, spilled, err := p.Choose(c, dst, refused)
		got := -1
		if err == nil {
			for i, ports := range classes(ranges, c.Port()) {
				for _, q := range ports {
					if q == port {
						got = i
					}
				}
			}
			if got < 0 || !free(port) {
				t.Fatalf("client %v got port %d, which it must not", c, port)
			}
			noted[tuple{from(port), dst}]++
			live = append(live, tuple{from(port), dst})
		} else if err != sys.EADDRNOTAVAIL {
			t.Fatal(err)
		}
		if got != want || spilled != (want != 0) {
			t.Fatalf("client %v got port %d of class %d, spilled %v; want class %d", c, port, got, spilled, want)
		}
		outcomes[fmt.Sprint(got)]++
		if p.Len() != len(noted) {
			t.Fatalf("%d tuples are noted; want %d", p.Len(), len(noted))
		}
	}
	t.Logf("choices by class: %v", outcomes)
	for class := -1; class < 4; class++ {
		if outcomes[fmt.Sprint(class)] == 0 {
			t.Errorf("class %d was never drawn from: this test shows too little", class)
		}
	}
}
