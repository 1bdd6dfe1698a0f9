package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/bench/load"
	"github.com/sluice-mesh/sluice/bench/report"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// agreePort is where the servers of agree listen.
const agreePort = 7000

// A rival is a known tool and the load of ours that does the same.
type rival struct {
	name   string
	ours   load.Spec
	server []string // of the tool; http or http-close is our own server
	client []string // HOST, SECONDS and PAD stand for what they say
	// request is the length of the tool's request without the server's address and
	// port, and with an empty PAD; 0 when the tool is told the length.
	request int
	reads   func(output string) (float64, error)
	unit    string
	// narrow is the rate of a wire that is the limit for both, whatever the
	// processors do, as tc(8) has it.
	narrow string
}

// Wires on which both have the same to carry: 1 GB takes 40 s, 1000 exchanges or
// connections some tenths of a second.
const (
	narrowBulk     = "200mbit"
	narrowMessages = "6mbit"
)

func rivals() []rival {
	number := func(pattern string, of func(float64) float64) func(string) (float64, error) {
		re := regexp.MustCompile(pattern)
		return func(out string) (float64, error) {
			m := re.FindStringSubmatch(out)
			if m == nil {
				return 0, fmt.Errorf("no %s in %q", pattern, out)
			}
			v, err := strconv.ParseFloat(m[1], 64)
			return of(v), err
		}
	}
	same := func(v float64) float64 { return v }
	iperf := []string{"iperf3", "-s", "-p", "7000"}
	client := func(extra ...string) []string {
		return append([]string{"iperf3", "-c", "HOST", "-p", "7000", "-t", "SECONDS", "-J"}, extra...)
	}
	return []rival{
		{"iperf3, 1 stream up", load.Spec{Kind: load.Bulk, Conns: 1, Sample: 8}, iperf, client(), 0, iperfRate, report.BytesPerSec, narrowBulk},
		{"iperf3, 8 streams up", load.Spec{Kind: load.Bulk, Conns: 8, Sample: 8}, iperf, client("-P", "8"), 0, iperfRate, report.BytesPerSec, narrowBulk},
		{"iperf3, 1 stream down", load.Spec{Kind: load.Bulk, Conns: 1, Down: true, Sample: 8}, iperf, client("-R"), 0, iperfRate, report.BytesPerSec, narrowBulk},
		{
			"sockperf, 100 bytes, 1 connection", load.Spec{Kind: load.Exchange, Conns: 1, Request: 100, Reply: 100},
			[]string{"sockperf", "server", "--tcp", "-p", "7000"},
			[]string{"sockperf", "ping-pong", "--tcp", "-i", "HOST", "-p", "7000", "-m", "100", "-t", "SECONDS"}, 0,
			number(`Latency is ([0-9.]+)`, func(us float64) float64 { return 1e6 / (2 * us) }), report.ExchangesPerSec, narrowMessages,
		},
		{
			"wrk, 100 bytes, 64 connections", load.Spec{Kind: load.Exchange, Conns: 64, Request: 100, Reply: 100},
			[]string{"http"}, []string{"wrk", "-t", "1", "-c", "64", "-d", "SECONDS", "-H", "X: PAD", "http://HOST:7000/"}, 31,
			number(`Requests/sec:\s+([0-9.]+)`, same), report.ExchangesPerSec, narrowMessages,
		},
		{
			"ab, 100 bytes, 32 clients, server closes", load.Spec{Kind: load.Churn, Conns: 32, Request: 100, Reply: 100, Close: load.ServerFIN},
			[]string{"http-close"}, []string{"ab", "-q", "-c", "32", "-t", "SECONDS", "-n", "1000000", "-H", "X: PAD", "http://HOST:7000/"}, 73,
			number(`Requests per second:\s+([0-9.]+)`, same), report.ConnsPerSec, narrowMessages,
		},
	}
}

func iperfRate(out string) (float64, error) {
	var r struct {
		End struct {
			Sum struct {
				Rate float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return 0, err
	}
	return r.End.Sum.Rate / 8, nil
}

// An agreement is how our load compares with a known tool.
type agreement struct {
	rival        rival
	theirs, ours report.Stat
	ratio        report.Stat // of ours to theirs, one per round
}

// agreeCommand compares the load with known tools.
func agreeCommand() *cobra.Command {
	var rounds, seconds int
	var narrow bool
	var tools []string
	cmd := &cobra.Command{
		Use:   "agree",
		Short: "Compare the load itself with iperf3, sockperf, wrk and ab on the bare wire",
		Long: `Compare the load itself with iperf3, sockperf, wrk and ab on the bare wire.

On a wire that is fast the processor is the limit, and what is compared is what
each tool spends on a byte or a message. On a narrow one the wire is, and what is
compared is whether each puts the same on it and counts it right.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := interruptible(cmd.Context(), cmd.ErrOrStderr())
			defer stop()
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			list, err := pick("tool", rivals(), func(r rival) string { return r.client[0] }, tools)
			if err != nil {
				return err
			}
			if !narrow {
				for i := range list {
					list[i].narrow = ""
				}
			}
			return agreeTable(ctx, cmd.OutOrStdout(), list, self, rounds, seconds)
		},
	}
	cmd.Flags().IntVar(&rounds, "rounds", 6, "how often each is measured, by turns")
	cmd.Flags().IntVar(&seconds, "seconds", 2, "length of each measurement")
	cmd.Flags().StringSliceVar(&tools, "tool", nil, "compare with these alone")
	cmd.Flags().BoolVar(&narrow, "narrow", false, "on a wire that is the limit for both")
	return cmd
}

func agreeTable(ctx context.Context, w io.Writer, list []rival, self string, rounds, seconds int) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "TOOL\tUNIT\tTOOL'S\tOURS\tOURS/TOOL'S, INTERVAL")
	for _, r := range list {
		if _, err := exec.LookPath(r.client[0]); err != nil {
			fmt.Fprintf(t, "%s\t\t%s is not installed\n", r.name, r.client[0])
			continue
		}
		a, err := r.agree(ctx, self, rounds, seconds)
		if err != nil {
			return errors.Join(err, t.Flush())
		}
		fmt.Fprintf(t, "%s\t%s\t%.4g\t%.4g\t%.3f [%.3f, %.3f]\n", r.name, r.unit, a.theirs.Center, a.ours.Center, a.ratio.Center, a.ratio.Lo, a.ratio.Hi)
	}
	return t.Flush()
}

// agree measures both by turns.
func (r rival) agree(ctx context.Context, self string, rounds, seconds int) (agreement, error) {
	var theirs, ours, ratios []float64
	for range rounds {
		a, err := r.inLab(ctx, func(l *lab.Lab) (float64, error) { return r.tool(ctx, l, self, seconds) })
		if err != nil {
			return agreement{}, fmt.Errorf("%s: %w", r.name, err)
		}
		b, err := r.inLab(ctx, func(l *lab.Lab) (float64, error) { return r.own(ctx, l, self, seconds) })
		if err != nil {
			return agreement{}, fmt.Errorf("%s, ours: %w", r.name, err)
		}
		theirs, ours, ratios = append(theirs, a), append(ours, b), append(ratios, b/a)
	}
	return agreement{r, report.NewStat(theirs), report.NewStat(ours), report.NewStat(ratios)}, nil
}

// inLab gives each measurement a lab of its own.
func (r rival) inLab(ctx context.Context, fn func(*lab.Lab) (float64, error)) (_ float64, err error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	l, err := lab.Build("", lab.Simple(1, 1, 1))
	if err != nil {
		return 0, err
	}
	if r.narrow != "" {
		for _, s := range []*lab.Space{l.Find("p1"), l.Find("h1")} {
			err = errors.Join(err, narrow(ctx, s, r.narrow))
		}
	}
	v := 0.0
	if err == nil {
		v, err = fn(l)
	}
	if e := l.Close(); err == nil {
		err = e
	}
	return v, err
}

// narrow limits what leaves a space. The queue holds what all connections of a
// rival can have under way, so that nothing is lost.
func narrow(ctx context.Context, s *lab.Space, rate string) error {
	_, err := s.Output(ctx, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "20kb", "limit", "2mb")
	return err
}

// tool runs the rival: its server outside, its client in the pod.
func (r rival) tool(ctx context.Context, l *lab.Lab, self string, seconds int) (float64, error) {
	pod, host := l.Find("p1"), l.Find("h1")
	prog := lab.Program{Path: r.server[0], Args: r.server[1:]}
	if strings.HasPrefix(r.server[0], "http") {
		prog = lab.Program{Name: "http", Path: self, Args: []string{"load", "http", "--to", host.At4(agreePort).String()}}
		if r.server[0] == "http-close" {
			prog.Args = append(prog.Args, "--close")
		}
	}
	p, err := host.Start(prog)
	if err != nil {
		return 0, err
	}
	if err := answers(ctx, pod, host, p); err != nil {
		return 0, err
	}
	args := make([]string, len(r.client))
	for i, a := range r.client {
		pad := strings.Repeat("x", max(r.ours.Request-r.request-len(host.At4(agreePort).String()), 0))
		args[i] = strings.NewReplacer("HOST", host.Addr4.String(), "SECONDS", strconv.Itoa(seconds), "PAD", pad).Replace(a)
	}
	out, err := pod.Output(ctx, args[0], args[1:]...)
	if err != nil {
		return 0, err
	}
	return r.reads(out)
}

// answers waits until the server takes a connection.
func answers(ctx context.Context, from, to *lab.Space, p *lab.Process) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := from.Dial(ctx, to.At4(agreePort), lab.Socket{})
		if err == nil {
			return c.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w: %s", p.Name, err, p.LogTail(3))
		case <-p.Done():
			return fmt.Errorf("%s ended: %s", p.Name, p.LogTail(3))
		case <-tick.C:
		}
	}
}

// says waits until the program has written text.
func says(ctx context.Context, p *lab.Process, text string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !p.Logged(text) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s does not say %s: %w: %s", p.Name, text, ctx.Err(), p.LogTail(3))
		case <-p.Done():
			return fmt.Errorf("%s ended: %s", p.Name, p.LogTail(3))
		case <-tick.C:
		}
	}
	return nil
}

// own runs our load in the same place.
func (r rival) own(ctx context.Context, l *lab.Lab, self string, seconds int) (float64, error) {
	pod, host := l.Find("p1"), l.Find("h1")
	spec := r.ours
	spec.To = load.Addrs(host.Addr4, agreePort, 1)
	spec.Warm, spec.Length, spec.Seed, spec.Threads = 200*time.Millisecond, time.Duration(seconds)*time.Second, 1, 1
	text, err := json.Marshal(spec)
	if err != nil {
		return 0, err
	}
	p, err := host.Start(lab.Program{Name: "load-server", Path: self, Args: []string{"load", "server", "--spec", string(text)}})
	if err != nil {
		return 0, err
	}
	if err := says(ctx, p, `"event":"`+load.EventReady); err != nil { // a probe would be an error of churn
		return 0, err
	}
	out, err := pod.Output(ctx, self, "load", "client", "--spec", string(text))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(out) {
		var e load.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			return 0, err
		}
		if e.Event == load.EventResult {
			if e.Result.Failures() > 0 {
				return 0, fmt.Errorf("errors: %v", e.Result.Errors)
			}
			if spec.Kind == load.Bulk {
				return float64(e.Result.Bytes) / e.Result.Seconds, nil
			}
			return float64(e.Result.Exchanges) / e.Result.Seconds, nil
		}
	}
	return 0, fmt.Errorf("no result in %q", out)
}

// httpCommand is the server that wrk and ab are run against.
func httpCommand() *cobra.Command {
	var to string
	var closing bool
	cmd := &cobra.Command{
		Use: "http", Short: "Answer HTTP with 100 bytes until interrupted", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			addrs, err := load.ParseAddrs(to)
			if err != nil {
				return fmt.Errorf("--to: %w", err)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), sys.SIGTERM, os.Interrupt)
			defer stop()
			return load.HTTP(ctx, addrs[0], closing, func() { fmt.Fprintln(cmd.OutOrStdout(), "ready") })
		},
	}
	cmd.Flags().StringVar(&to, "to", "127.0.0.1:7000", "ADDRESS:PORT to listen on")
	cmd.Flags().BoolVar(&closing, "close", false, "close each connection after its reply")
	return cmd
}
