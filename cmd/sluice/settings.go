package main

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-mesh/sluice/dataplane/logs"
	"github.com/sluice-mesh/sluice/dataplane/node"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/dataplane/zds"
)

// lookup reads one environment variable.
type lookup func(name string) (value string, ok bool)

// settings are what flags and the environment say, checked.
type settings struct {
	node      node.Config
	levels    *logs.Levels
	logFormat logs.Format
	profile   profiling
	shown     map[string]any // by flag, as they are in effect
	warnings  []string

	keepalive bool
	cpus      cpuSettings
}

// A setting is one that can be given: as a flag, or as a variable whose name is
// SLUICE_ and the flag's.
type setting struct {
	flag, kind string
	standard   string // the text of the default
	help       string
	set        func(text string) error
}

// The kinds of settings, as help shows them.
const (
	kindText     = "string"
	kindBool     = "bool"
	kindInt      = "int"
	kindDuration = "duration"
)

// variable is the setting's own environment variable.
func (t setting) variable() string {
	return "SLUICE_" + strings.ToUpper(strings.ReplaceAll(t.flag, "-", "_"))
}

// table is every setting, in the order of docs/operating.md.
func (s *settings) table() []setting {
	c := &s.node
	flows, keepalive := &c.Session, &c.Session.Keepalive
	return []setting{
		{"zds-socket", kindText, zds.DefaultSocket, "unix socket of the agent that hands over pods", text(&c.Pods.Socket, "a path")},
		{"loops", kindInt, "0", "event loops; 0 means the CPU limit in the environment, else one for each CPU, at most 16", integer(&c.Loops, 0, maxLoops)},
		{"pipes", kindInt, "0", "pipes for splice that one loop may have; 0 means 64, negative none", integer(&c.Pipes.Pipes, -1, 1<<16)},
		{"pipe-bytes", kindInt, "0", "size asked for each pipe; 0 means 512 KiB", s.pipeBytes},
		{"no-splice", kindBool, "false", "copy only", boolean(&flows.Relay.NoSplice)},
		{"ca-dir", kindText, "", "directory of the certificate authority that all nodes share; none means no tunnels", anything(&c.Mesh.CADir)},
		{"mesh-file", kindText, "", "file of the mesh's workloads; none means that only tunnels of others are served", anything(&c.Mesh.File)},
		{"generic-cipher", kindBool, "false", "encrypt without the vector instructions of this processor", boolean(&c.Mesh.GenericCipher)},
		{"connect-timeout", kindDuration, "10s", "for a connect to a destination", duration(&flows.Patience, time.Millisecond, time.Hour)},
		{"idle-timeout", kindDuration, "0s", "reset a flow on which no byte moves for so long; 0 means never", duration(&flows.Relay.Idle, 0, forever)},
		{"half-close-timeout", kindDuration, "1h0m0s", "the same for a half-closed flow; 0 means never", duration(&flows.Relay.HalfClose, 0, forever)},
		{"keepalive", kindBool, "true", "probe silent peers", boolean(&s.keepalive)},
		{"keepalive-time", kindDuration, node.DefaultKeepalive.Idle.String(), "silence before the first probe", duration(&keepalive.Idle, time.Second, 32767*time.Second)},
		{"keepalive-interval", kindDuration, node.DefaultKeepalive.Interval.String(), "time between probes", duration(&keepalive.Interval, time.Second, 32767*time.Second)},
		{"keepalive-retries", kindInt, fmt.Sprint(node.DefaultKeepalive.Count), "probes before the peer is given up", integer(&keepalive.Count, 1, 127)},
		{"drain", kindDuration, "5s", "how long open flows may go on after a signal to end", atOnce(&c.Pods.ProcessDrain)},
		{"pod-drain", kindDuration, "10m0s", "how long open flows may go on after their pod was removed", atOnce(&c.Pods.PodDrain)},
		{"source-ports", kindText, "", "ranges for connections to applications in their clients' name, the preferred one first; none means 16384-32767,10240-16383; keep clients' ephemeral ports out", s.sourcePorts},
		{"no-source", kindBool, "false", "don't keep clients' source addresses", boolean(&c.NoSource)},
		{"ipv4-only", kindBool, "false", "listen on IPv4 only", boolean(&flows.IPv4Only)},
		{"no-port-reuse", kindBool, "false", "let only one proxy at a time listen in a pod", boolean(&flows.NoReuse)},
		{"no-mark", kindBool, "false", "leave SO_MARK out; our capture rules need it", boolean(&flows.NoMark)},
		{"host-congestion", kindBool, "false", "use the host's congestion control within pods too", boolean(&c.HostCongestion)},
		{"access-log", kindBool, "true", "write one line for each flow", boolean(&flows.Log)},
		{"log-level", kindText, "info", logs.LevelUsage, s.logLevel},
		{"log-format", kindText, "plain", "plain or json", s.setLogFormat},
		{"admin-addr", kindText, "localhost:15000", "for people: flows, state, profiles; none for no server", address(&c.Admin.Admin)},
		{"metrics-addr", kindText, ":15020", "Prometheus metrics; none for no server", address(&c.Admin.Metrics)},
		{"ready-addr", kindText, ":15021", "readiness; none for no server", address(&c.Admin.Ready)},
		{"profile", kindText, "", "profile the whole run: cpu, mem, block, mutex or trace", s.profile.set},
		{"profile-dir", kindText, ".", "where the profile is written", text(&s.profile.dir, "a directory")},
	}
}

// modes are the capture modes that this proxy serves, the best first.
func modes() []string { return []string{"direct", "redirect"} }

// readSettings takes the flags that were given, and for the others what the
// environment says; all faults at once.
func readSettings(given flags, env lookup) (*settings, error) {
	s := &settings{shown: map[string]any{}}
	table := map[string]setting{}
	var faults []error
	apply := func(t setting, text, what string) {
		err := t.set(text)
		if err == nil {
			s.shown[t.flag] = shownValue(t.kind, text)
			return
		}
		faults = append(faults, fmt.Errorf("invalid %s (%w)", what, err))
	}
	order := s.table()
	for _, t := range order {
		table[t.flag] = t
		apply(t, t.standard, "default of --"+t.flag)
	}
	for _, v := range variables() {
		raw, ok := env(v.name)
		if !ok || !utf8.ValidString(raw) {
			continue
		}
		text, err := v.read(s, raw)
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("invalid env var %s=%s (%w)", v.name, raw, err))
		case v.flag != "":
			apply(table[v.flag], text, fmt.Sprintf("env var %s=%s", v.name, raw))
		}
	}
	for _, t := range order {
		if raw, ok := env(t.variable()); ok && utf8.ValidString(raw) {
			apply(t, raw, fmt.Sprintf("env var %s=%s", t.variable(), raw))
		}
	}
	for _, t := range order {
		if text, ok := given[t.flag]; ok {
			apply(t, text, fmt.Sprintf("flag --%s=%s", t.flag, text))
		}
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	s.finish()
	return s, nil
}

// finish fills in what several settings say together.
func (s *settings) finish() {
	s.node.Pods.Modes = modes()
	if s.node.Loops == 0 {
		s.node.Loops = min(s.cpus.loops(runtime.GOMAXPROCS(0)), maxLoops) // the runtime knows of affinity and control groups
	}
	s.shown["loops"] = s.node.Loops
	if !s.keepalive {
		s.node.Session.Keepalive = sys.Keepalive{}
	}
}

func (s *settings) pipeBytes(text string) error {
	// With less splice is not worth while; a pipe of a GiB holds a flow's data for
	// seconds.
	if text == "0" {
		s.node.Pipes.PipeBytes = 0
		return nil
	}
	return integer(&s.node.Pipes.PipeBytes, 64<<10, 1<<30)(text)
}

func (s *settings) sourcePorts(text string) (err error) {
	s.node.Session.Ports, err = parseRanges(text)
	return err
}

func (s *settings) logLevel(text string) (err error) {
	s.levels, err = logs.ParseLevels(text)
	return err
}

func (s *settings) setLogFormat(text string) (err error) {
	s.logFormat, err = logs.ParseFormat(text)
	return err
}
