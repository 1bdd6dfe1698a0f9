package main

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/dataplane/dial"
	"github.com/sluice-mesh/sluice/dataplane/node"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/dataplane/zds"
)

// settings are what flags and the environment say. A flag beats its variable,
// which beats the default.
type settings struct {
	cfg node.Config

	sourcePorts string
	keepalive   bool
	logLevel    string
	logFormat   string
	profile     string
	profileDir  string
}

// flags registers every flag with its default.
func (s *settings) flags(cmd *cobra.Command) {
	c, f := &s.cfg, cmd.Flags()
	f.StringVar(&c.Pods.Socket, "zds-socket", zds.DefaultSocket, "unix socket of the agent that hands over pods")
	f.IntVar(&c.Loops, "loops", 0, "event loops; 0 means one for each CPU, at most 16")
	f.IntVar(&c.Pipes.Pipes, "pipes", 0, "pipes for splice that one loop may have; 0 means 64, negative none")
	f.IntVar(&c.Pipes.PipeBytes, "pipe-bytes", 0, "size asked for each pipe; 0 means 512 KiB")
	f.BoolVar(&c.Session.Relay.NoSplice, "no-splice", false, "copy only")
	f.DurationVar(&c.Session.Patience, "connect-timeout", 10*time.Second, "for a connect to a destination")
	f.DurationVar(&c.Session.Relay.Idle, "idle-timeout", 0, "reset a flow on which no byte moves for so long; 0 means never")
	f.DurationVar(&c.Session.Relay.HalfClose, "half-close-timeout", time.Hour, "the same for a half-closed flow; 0 means never")
	f.BoolVar(&s.keepalive, "keepalive", true, "probe silent peers")
	f.DurationVar(&c.Session.Keepalive.Idle, "keepalive-time", node.DefaultKeepalive.Idle, "silence before the first probe")
	f.DurationVar(&c.Session.Keepalive.Interval, "keepalive-interval", node.DefaultKeepalive.Interval, "time between probes")
	f.IntVar(&c.Session.Keepalive.Count, "keepalive-retries", node.DefaultKeepalive.Count, "probes before the peer is given up")
	f.DurationVar(&c.Pods.ProcessDrain, "drain", 5*time.Second, "how long open flows may go on after a signal to end")
	f.DurationVar(&c.Pods.PodDrain, "pod-drain", 10*time.Minute, "how long open flows may go on after their pod was removed")
	f.StringVar(&s.sourcePorts, "source-ports", "", "ranges for connections to applications in their clients' name, such as 16384-32767,10240-16383; keep clients' ephemeral ports out")
	f.BoolVar(&c.Session.IPv4Only, "ipv4-only", false, "listen on IPv4 only")
	f.BoolVar(&c.Session.NoReuse, "no-port-reuse", false, "let only one proxy at a time listen in a pod")
	f.BoolVar(&c.Session.NoMark, "no-mark", false, "leave SO_MARK out; our capture rules need it")
	f.BoolVar(&c.HostCongestion, "host-congestion", false, "use the host's congestion control within pods too")
	f.BoolVar(&c.Session.Log, "access-log", true, "write one line for each flow")
	f.StringVar(&s.logLevel, "log-level", "", "such as info or warn,access=info; empty means info")
	f.StringVar(&s.logFormat, "log-format", "plain", "plain or json")
	f.StringVar(&c.Admin.Admin, "admin-addr", "localhost:15000", "for people: flows, state, profiles; empty means none")
	f.StringVar(&c.Admin.Metrics, "metrics-addr", ":15020", "Prometheus metrics; empty means none")
	f.StringVar(&c.Admin.Ready, "ready-addr", ":15021", "readiness; empty means none")
	f.StringVar(&s.profile, "profile", "", "profile the whole run: cpu, mem, block, mutex or trace")
	f.StringVar(&s.profileDir, "profile-dir", ".", "where the profile is written")
}

// variable is an environment variable and how it is read.
type variable struct {
	name string
	flag string // that beats it
	set  func(*settings, string) error
}

// variables are those of the mesh's own proxy that mean something here.
func variables() []variable {
	boolean := func(set func(*settings, bool)) func(*settings, string) error {
		return func(s *settings, v string) error {
			if v != "true" && v != "false" {
				return errors.New("want true or false")
			}
			set(s, v == "true")
			return nil
		}
	}
	duration := func(at func(*settings) *time.Duration) func(*settings, string) error {
		return func(s *settings, v string) (err error) {
			*at(s), err = parseDuration(v)
			return err
		}
	}
	return []variable{
		{"INPOD_UDS", "zds-socket", func(s *settings, v string) error { s.cfg.Pods.Socket = v; return nil }},
		{"INPOD_PORT_REUSE", "no-port-reuse", boolean(func(s *settings, on bool) { s.cfg.Session.NoReuse = !on })},
		{"PACKET_MARK", "no-mark", func(s *settings, v string) error {
			n, err := strconv.ParseUint(v, 0, 32)
			if err != nil || n != 0 && n != sys.Mark {
				return fmt.Errorf("want %d, which the capture rules know, or 0 for none", sys.Mark)
			}
			s.cfg.Session.NoMark = n == 0
			return nil
		}},
		{"IPV6_ENABLED", "ipv4-only", boolean(func(s *settings, on bool) { s.cfg.Session.IPv4Only = !on })},
		{"KEEPALIVE_ENABLED", "keepalive", boolean(func(s *settings, on bool) { s.keepalive = on })},
		{"KEEPALIVE_TIME", "keepalive-time", duration(func(s *settings) *time.Duration { return &s.cfg.Session.Keepalive.Idle })},
		{"KEEPALIVE_INTERVAL", "keepalive-interval", duration(func(s *settings) *time.Duration { return &s.cfg.Session.Keepalive.Interval })},
		{"KEEPALIVE_RETRIES", "keepalive-retries", func(s *settings, v string) (err error) {
			s.cfg.Session.Keepalive.Count, err = strconv.Atoi(v)
			return err
		}},
		{"TERMINATION_GRACE_PERIOD_SECONDS", "drain", func(s *settings, v string) error {
			n, err := strconv.Atoi(v)
			if err != nil {
				return err
			}
			if n > 10 {
				n -= 5
			} else {
				n--
			}
			s.cfg.Pods.ProcessDrain = time.Duration(max(n, 1)) * time.Second
			return nil
		}},
		{"CONNECTION_TERMINATION_DEADLINE", "drain", duration(func(s *settings) *time.Duration { return &s.cfg.Pods.ProcessDrain })},
		{"ZTUNNEL_CPU_LIMIT", "loops", func(s *settings, v string) (err error) { s.cfg.Loops, err = parseCPUs(v); return err }},
		{"ZTUNNEL_RESOURCE_CPU_LIMIT", "loops", func(s *settings, v string) (err error) { s.cfg.Loops, err = parseCPUs(v); return err }},
		{"ZTUNNEL_WORKER_THREADS", "loops", func(s *settings, v string) (err error) { s.cfg.Loops, err = parseThreads(v); return err }},
		{"RUST_LOG", "log-level", func(s *settings, v string) error { s.logLevel = v; return nil }},
		{"LOG_FORMAT", "log-format", func(s *settings, v string) error {
			if v == "json" { // anything else is plain, as the variable is documented
				s.logFormat = v
			}
			return nil
		}},
	}
}

// environment reads the variables whose flag was not given; all faults at once.
func (s *settings) environment(cmd *cobra.Command, lookup func(string) (string, bool)) error {
	var faults []error
	for _, v := range variables() {
		text, ok := lookup(v.name)
		if !ok || cmd.Flags().Changed(v.flag) {
			continue
		}
		if err := v.set(s, text); err != nil {
			faults = append(faults, fmt.Errorf("invalid env var %s=%s (%w)", v.name, text, err))
		}
	}
	return errors.Join(faults...)
}

// finish checks what flags and variables say together; all faults at once.
func (s *settings) finish() error {
	var faults []error
	fault := func(flag string, err error) {
		if err != nil {
			faults = append(faults, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	var err error
	s.cfg.Session.Ports, err = parseRanges(s.sourcePorts)
	fault("source-ports", err)
	if k := &s.cfg.Session.Keepalive; !s.keepalive {
		*k = sys.Keepalive{}
	} else if k.Idle < time.Second || k.Interval < time.Second || k.Count < 1 || k.Count > 127 || k.Idle > 32767*time.Second || k.Interval > 32767*time.Second {
		fault("keepalive-time", fmt.Errorf("%v, %v and %d; want times of 1 s to 32767 s, and 1 to 127 probes (tcp(7))", k.Idle, k.Interval, k.Count))
	}
	if s.logFormat != "plain" && s.logFormat != "json" {
		fault("log-format", fmt.Errorf("%q; want plain or json", s.logFormat))
	}
	_, err = parseLevels(s.logLevel)
	fault("log-level", err)
	if _, ok := profiles()[s.profile]; !ok && s.profile != "" {
		fault("profile", fmt.Errorf("%q; want cpu, mem, block, mutex or trace", s.profile))
	}
	return errors.Join(faults...)
}

// parseDuration reads Go's syntax, a bare number of seconds, or days.
func parseDuration(v string) (time.Duration, error) {
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second, nil
	}
	if days, ok := strings.CutSuffix(v, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(v)
	if err == nil && d < 0 {
		err = errors.New("want 0 or more")
	}
	return d, err
}

// parseCPUs reads 2, 1.5 or 500m and rounds up.
func parseCPUs(v string) (int, error) {
	scale := 1.0
	if m, ok := strings.CutSuffix(v, "m"); ok {
		v, scale = m, 1000
	}
	n, err := strconv.ParseFloat(v, 64)
	if err != nil || !(n > 0) || n/scale > 1<<16 {
		return 0, errors.New("must be a positive CPU quantity")
	}
	cpus := int(n / scale)
	if float64(cpus) < n/scale {
		cpus++
	}
	return cpus, nil
}

// parseThreads reads a number, 0 for all CPUs, or a percentage of them.
func parseThreads(v string) (int, error) {
	if p, ok := strings.CutSuffix(v, "%"); ok {
		n, err := strconv.ParseFloat(p, 64)
		if err != nil {
			return 0, fmt.Errorf("invalid percentage: %s", p)
		}
		if !(n > 0) || n > 100 {
			return 0, errors.New("percentage must be between 0 and 100")
		}
		return max(1, int(float64(runtime.NumCPU())*n/100+0.999999)), nil
	}
	n, err := strconv.ParseUint(v, 10, 16)
	if err != nil {
		return 0, fmt.Errorf("invalid number: %s", v)
	}
	return int(n), nil
}

// parseRanges reads such as 16384-32767,10240-16383; empty means the default.
func parseRanges(v string) ([]dial.Range, error) {
	if v == "" {
		return nil, nil
	}
	var all []dial.Range
	for part := range strings.SplitSeq(v, ",") {
		a, b, ok := strings.Cut(strings.TrimSpace(part), "-")
		first, err1 := strconv.ParseUint(a, 10, 16)
		last, err2 := strconv.ParseUint(b, 10, 16)
		if !ok || err1 != nil || err2 != nil || first == 0 || first > last {
			return nil, fmt.Errorf("range %q; want FIRST-LAST, both 1 to 65535", part)
		}
		all = append(all, dial.Range{First: uint16(first), Last: uint16(last)})
	}
	return all, nil
}
