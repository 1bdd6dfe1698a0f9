package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
)

const (
	httpPort  = 8080
	bulkPort  = 5201
	greetPort = 2525
)

// serve starts nginx, iperf3 and a server that speaks first, wherever a flow
// goes to.
func (d *demo) serve() error {
	d.iperf = map[*lab.Space]*lab.Process{}
	for _, s := range []*lab.Space{d.node.Pods[0].Space, d.node.Pods[1].Space, d.lab.Hosts[0].Space} {
		conf := filepath.Join(s.Dir, "nginx.conf")
		if err := os.WriteFile(conf, []byte(nginxConf(s.Dir)), 0o644); err != nil {
			return err
		}
		bulk, err := d.run(s, lab.Program{Name: "iperf3", Path: "iperf3", Args: []string{"-s", "-p", fmt.Sprint(bulkPort), "--forceflush"}})
		if err != nil {
			return err
		}
		d.iperf[s] = bulk
		for _, p := range []lab.Program{
			{Path: "nginx", Args: []string{"-c", conf, "-e", filepath.Join(s.Dir, "nginx.err")}},
			{Path: "socat", Args: []string{fmt.Sprintf("TCP6-LISTEN:%d,ipv6only=0,fork,reuseaddr", greetPort), "SYSTEM:echo 220 $SOCAT_PEERADDR"}},
		} {
			if _, err := d.run(s, p); err != nil {
				return err
			}
		}
		for _, port := range []uint16{httpPort, bulkPort, greetPort} {
			if err := d.until(fmt.Sprintf("port %d in %s", port, s.Name), func() error { return listening(s, port) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// listening looks for a listener without connecting to it.
func listening(s *lab.Space, port uint16) error {
	var text []byte
	err := s.Do(func() (err error) {
		for _, f := range []string{"tcp", "tcp6"} {
			part, rerr := os.ReadFile("/proc/thread-self/net/" + f)
			text, err = append(text, part...), errors.Join(err, rerr)
		}
		return err
	})
	if err == nil && !bytes.Contains(text, fmt.Appendf(nil, ":%04X ", port)) {
		err = errors.New("nobody listens")
	}
	return err
}

// nginxConf answers with the address that the server saw.
func nginxConf(dir string) string {
	return fmt.Sprintf(`daemon off; worker_processes 1; pid %[1]s/nginx.pid; error_log %[1]s/nginx.err;
events { worker_connections 64; }
http { access_log off; client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
  server { listen [::]:%[2]d ipv6only=off; location / { return 200 "$remote_addr\n"; } } }
`, dir, httpPort)
}

// demoFlow is one row: who talks to whom, and which way it has to take.
type demoFlow struct {
	what     string // http, bulk or greeting
	from, to *lab.Space
	v6       bool
	path     []string // directions in the access log, sorted
	bulkUp   bool
}

func (f demoFlow) source() netip.Addr {
	if f.v6 {
		return f.from.Addr6
	}
	return f.from.Addr4
}

func (f demoFlow) target() netip.AddrPort {
	port := map[string]uint16{"http": httpPort, "bulk": bulkPort, "greeting": greetPort}[f.what]
	if f.v6 {
		return f.to.At6(port)
	}
	return f.to.At4(port)
}

// outcome is what the two programs saw.
type outcome struct {
	source netip.Addr // of the client, as the server saw it
	bytes  int64
	took   time.Duration
}

// flows runs every row and prints it.
func (d *demo) flows() error {
	p1, p2, p3, h1 := d.node.Pods[0].Space, d.node.Pods[1].Space, d.node.Pods[2].Space, d.lab.Hosts[0].Space
	out, in, both := []string{"outbound"}, []string{"inbound"}, []string{"inbound", "outbound"}
	t := tabwriter.NewWriter(d.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "FLOW\tFROM\tTO\tSERVER SAW\tPATH\tENGINE UP/DOWN\tBYTES\tRATE")
	var faults []error
	for _, f := range []demoFlow{
		{"http", p1, h1, false, out, false},
		{"http", h1, p2, true, in, false},
		{"http", p1, p2, false, both, false},
		{"http", p3, p2, false, in, false},
		{"greeting", p1, h1, true, out, false},
		{"greeting", p3, p1, false, in, false},
		{"bulk", p1, h1, false, out, true},
		{"bulk", h1, p1, true, in, true},
		{"bulk", p1, p2, false, both, true},
	} {
		o, err := d.talk(f)
		if err != nil {
			return fmt.Errorf("%s from %s to %s at %v: %w", f.what, f.from.Name, f.to.Name, f.target(), err)
		}
		row, err := d.carried(f)
		if err == nil && o.source != f.source() {
			err = fmt.Errorf("the server saw %v; the client is %v", o.source, f.source())
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s from %s to %s: %w", f.what, f.from.Name, f.to.Name, err))
		}
		fmt.Fprintf(t, "%s\t%s %v\t%s %v\t%v\t%s\t%s\t%d\t%s\n", f.what, f.from.Name, f.source(), f.to.Name, f.target(), o.source,
			strings.Join(row.path, "+"), row.engines, o.bytes, rate(o))
	}
	return errors.Join(append(faults, t.Flush())...)
}

func rate(o outcome) string {
	bits := float64(o.bytes) * 8 / o.took.Seconds()
	if bits > 1e8 {
		return fmt.Sprintf("%.1f Gbit/s", bits/1e9)
	}
	return "in " + o.took.Round(100*time.Microsecond).String()
}

// talk has the client's program talk to the server's.
func (d *demo) talk(f demoFlow) (outcome, error) {
	start := time.Now()
	switch f.what {
	case "http":
		text, err := f.from.Output(d.ctx, "curl", "-sS", "-g", "-m", "5", "http://"+f.target().String()+"/")
		return d.answer(text, start, err)
	case "greeting":
		text, err := f.from.Output(d.ctx, "socat", "-u", "-T", "5", "TCP:"+f.target().String(), "STDOUT")
		text = strings.TrimPrefix(text, "220 ")
		return d.answer(text, start, err)
	}
	server := d.iperf[f.to]
	before := len(server.Log())
	text, err := f.from.Output(d.ctx, "iperf3", "-J", "-t", "1", "-p", fmt.Sprint(bulkPort), "-c", f.target().Addr().String())
	if err != nil {
		return outcome{}, fmt.Errorf("%w: %s", err, text)
	}
	var got struct {
		End struct {
			Received struct {
				Bytes   int64   `json:"bytes"`
				Seconds float64 `json:"seconds"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		return outcome{}, fmt.Errorf("iperf3's result: %w", err)
	}
	o := outcome{bytes: got.End.Received.Bytes, took: time.Duration(got.End.Received.Seconds * 1e9)}
	m := acceptedFrom.FindStringSubmatch(server.Log()[before:])
	if m == nil {
		return o, errors.New("iperf3's server named no client")
	}
	o.source, err = netip.ParseAddr(m[1])
	o.source = o.source.Unmap()
	return o, err
}

var acceptedFrom = regexp.MustCompile(`Accepted connection from ([0-9a-f.:]+), port`)

// answer reads an address that a server sent.
func (d *demo) answer(text string, start time.Time, err error) (outcome, error) {
	o := outcome{bytes: int64(len(text)), took: time.Since(start)}
	if err != nil {
		return o, fmt.Errorf("%w: %s", err, text)
	}
	o.source, err = netip.ParseAddr(strings.Trim(strings.TrimSpace(text), "[]"))
	o.source = o.source.Unmap()
	return o, err
}

// carried waits for the records of the flow in the proxy's access log.
func (d *demo) carried(f demoFlow) (carriage, error) {
	var got carriage
	err := d.until("the flow in the access log", func() error {
		var err error
		got, err = judge(d.sluice.Log()[d.read:], f.target(), f.source(), f.bulkUp)
		if err == nil && !slices.Equal(got.path, f.path) {
			err = fmt.Errorf("it went %v; want %v", got.path, f.path)
		}
		return err
	})
	d.read = len(d.sluice.Log())
	return got, err
}
