package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-mesh/sluice/dataplane/dial"
	"github.com/sluice-mesh/sluice/dataplane/logs"
	"github.com/sluice-mesh/sluice/dataplane/node"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/dataplane/zds"
)

// environment looks up NAME=VALUE pairs.
func environment(pairs ...string) lookup {
	return func(name string) (string, bool) {
		for _, p := range pairs {
			if v, ok := strings.CutPrefix(p, name+"="); ok {
				return v, true
			}
		}
		return "", false
	}
}

// parse reads a command line of run and an environment.
func parse(t *testing.T, args []string, env ...string) (*settings, error) {
	t.Helper()
	cmd := &cobra.Command{Use: "run"}
	given := registerFlags(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return readSettings(given, environment(env...))
}

func TestDefaults(t *testing.T) {
	s, err := parse(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := s.node
	for _, tt := range []struct{ name, got, want any }{
		{"socket", c.Pods.Socket, zds.DefaultSocket},
		{"modes", strings.Join(c.Pods.Modes, " "), "direct redirect"},
		{"drain", c.Pods.ProcessDrain, 5 * time.Second},
		{"pod drain", c.Pods.PodDrain, 10 * time.Minute},
		{"connect timeout", c.Session.Patience, 10 * time.Second},
		{"idle timeout", c.Session.Relay.Idle, time.Duration(0)},
		{"half-close timeout", c.Session.Relay.HalfClose, time.Hour},
		{"keepalive", c.Session.Keepalive, node.DefaultKeepalive},
		{"access log", c.Session.Log, true},
		{"admin", c.Admin.Admin, "localhost:15000"},
		{"metrics", c.Admin.Metrics, ":15020"},
		{"ready", c.Admin.Ready, ":15021"},
		{"levels", s.levels.String(), "info"},
		{"format", s.logFormat, logs.Plain},
		{"ports", len(c.Session.Ports), 0},
		{"switches", c.Session.NoMark || c.Session.NoReuse || c.Session.IPv4Only || c.Session.Relay.NoSplice || c.NoSource || c.HostCongestion, false},
	} {
		if !reflect.DeepEqual(tt.got, tt.want) {
			t.Errorf("%s is %v, want %v", tt.name, tt.got, tt.want)
		}
	}
}

// Each variable sets what it is for; a flag beats it, and the stronger of two
// variables the weaker.
func TestPrecedence(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  string // pairs
		args string
		get  func(*settings) any
		want any
	}{
		{"zds variable", "INPOD_UDS=/a", "", socket, "/a"},
		{"own beats the mesh's", "INPOD_UDS=/a SLUICE_ZDS_SOCKET=/b", "", socket, "/b"},
		{"flag beats both", "INPOD_UDS=/a SLUICE_ZDS_SOCKET=/b", "--zds-socket=/c", socket, "/c"},
		{"flag that says the default", "INPOD_UDS=/a", "--zds-socket=" + zds.DefaultSocket, socket, zds.DefaultSocket},
		{"port reuse off", "INPOD_PORT_REUSE=false", "", func(s *settings) any { return s.node.Session.NoReuse }, true},
		{"port reuse on", "INPOD_PORT_REUSE=true", "", func(s *settings) any { return s.node.Session.NoReuse }, false},
		{"mark", "PACKET_MARK=1337", "", noMarkOf, false},
		{"no mark", "PACKET_MARK=0", "", noMarkOf, true},
		{"flag against no mark", "PACKET_MARK=0", "--no-mark=false", noMarkOf, false},
		{"source never", "ENABLE_ORIG_SRC=false", "", func(s *settings) any { return s.node.NoSource }, true},
		{"source required", "ENABLE_ORIG_SRC=true", "", func(s *settings) any { return s.node.NoSource }, false},
		{"no IPv6", "IPV6_ENABLED=false", "", func(s *settings) any { return s.node.Session.IPv4Only }, true},
		{"no keepalive", "KEEPALIVE_ENABLED=false", "", keepalive, sys.Keepalive{}},
		{"keepalive", "KEEPALIVE_TIME=10s KEEPALIVE_INTERVAL=5 KEEPALIVE_RETRIES=3", "", keepalive,
			sys.Keepalive{Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}},
		{"grace 30", "TERMINATION_GRACE_PERIOD_SECONDS=30", "", drain, 25 * time.Second},
		{"grace 10", "TERMINATION_GRACE_PERIOD_SECONDS=10", "", drain, 9 * time.Second},
		{"grace 1", "TERMINATION_GRACE_PERIOD_SECONDS=1", "", drain, time.Second},
		{"grace 0", "TERMINATION_GRACE_PERIOD_SECONDS=0", "", drain, time.Second},
		{"deadline beats grace", "CONNECTION_TERMINATION_DEADLINE=90s TERMINATION_GRACE_PERIOD_SECONDS=30", "", drain, 90 * time.Second},
		{"drain flag", "CONNECTION_TERMINATION_DEADLINE=90s", "--drain=1m30s", drain, 90 * time.Second},
		{"drain at once", "", "--drain 0", drain, time.Duration(1)},
		{"drain of days", "", "--drain 2d", drain, 48 * time.Hour},
		{"threads", "ZTUNNEL_WORKER_THREADS=7", "", loops, 7},
		{"loops flag", "ZTUNNEL_WORKER_THREADS=7", "--loops=3", loops, 3},
		{"loops 0 is the environment's", "ZTUNNEL_WORKER_THREADS=7", "--loops=0", loops, 7},
		{"CPU limit", "ZTUNNEL_RESOURCE_CPU_LIMIT=2500m ZTUNNEL_CPU_LIMIT=32", "", loops, 3},
		{"levels", "RUST_LOG=access=off,warn", "", func(s *settings) any { return s.levels.String() }, "access=off,warn"},
		{"levels flag", "RUST_LOG=warn", "--log-level=debug", func(s *settings) any { return s.levels.String() }, "debug"},
		{"JSON", "LOG_FORMAT=json", "", format, logs.JSON},
		{"any other format", "LOG_FORMAT=yaml", "", format, logs.Plain},
		{"format flag", "LOG_FORMAT=json", "--log-format=plain", format, logs.Plain},
		{"access log", "SLUICE_ACCESS_LOG=false", "", func(s *settings) any { return s.node.Session.Log }, false},
		{"a bare boolean flag", "", "--no-splice", func(s *settings) any { return s.node.Session.Relay.NoSplice }, true},
		{"no admin", "", "--admin-addr=", func(s *settings) any { return s.node.Admin.Admin }, ""},
		{"none for metrics", "SLUICE_METRICS_ADDR=none", "", func(s *settings) any { return s.node.Admin.Metrics }, ""},
		{"ready", "", "--ready-addr=127.0.0.1:0", func(s *settings) any { return s.node.Admin.Ready }, "127.0.0.1:0"},
		{"ports", "", "--source-ports=20000-20001,30000-30000", func(s *settings) any { return s.node.Session.Ports },
			[]dial.Range{{First: 20000, Last: 20001}, {First: 30000, Last: 30000}}},
		{"pipes", "", "--pipes=-1 --pipe-bytes=1048576", func(s *settings) any { return s.node.Pipes.Pipes + s.node.Pipes.PipeBytes }, 1<<20 - 1},
		{"not UTF-8 is unset", "INPOD_UDS=\xff", "", socket, zds.DefaultSocket},
		{"shared", "PROXY_MODE=shared ENABLE_PROXY=true", "", socket, zds.DefaultSocket},
		{"a warning", "USER_TIMEOUT_ENABLED=true", "", func(s *settings) any { return len(s.warnings) }, 1},
		{"no warning", "USER_TIMEOUT_ENABLED=false", "", func(s *settings) any { return len(s.warnings) }, 0},
	} {
		s, err := parse(t, strings.Fields(tt.args), strings.Fields(tt.env)...)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if got := tt.get(s); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func socket(s *settings) any    { return s.node.Pods.Socket }
func noMarkOf(s *settings) any  { return s.node.Session.NoMark }
func keepalive(s *settings) any { return s.node.Session.Keepalive }
func drain(s *settings) any     { return s.node.Pods.ProcessDrain }
func loops(s *settings) any     { return s.node.Loops }
func format(s *settings) any    { return s.logFormat }

// Each fault names where the value came from and what is wanted, and they come all
// at once.
func TestFaults(t *testing.T) {
	type fault struct{ env, arg, want string }
	all := []fault{
		{"INPOD_UDS=", "", "invalid env var INPOD_UDS= (want a path)"},
		{"INPOD_PORT_REUSE=yes", "", "invalid env var INPOD_PORT_REUSE=yes (want true or false)"},
		{"PACKET_MARK=1", "", "invalid env var PACKET_MARK=1 (want 1337, which the capture rules know, or 0 for none)"},
		{"ENABLE_ORIG_SRC=1", "", "invalid env var ENABLE_ORIG_SRC=1 (want true or false)"},
		{"IPV6_ENABLED=TRUE", "", "invalid env var IPV6_ENABLED=TRUE (want true or false)"},
		{"KEEPALIVE_TIME=0", "", "invalid env var KEEPALIVE_TIME=0 (want a duration of 1s"},
		{"KEEPALIVE_RETRIES=128", "", "invalid env var KEEPALIVE_RETRIES=128 (want a whole number of 1 to 127)"},
		{"CONNECTION_TERMINATION_DEADLINE=soon", "", "invalid env var CONNECTION_TERMINATION_DEADLINE=soon (want a duration"},
		{"TERMINATION_GRACE_PERIOD_SECONDS=5s", "", "invalid env var TERMINATION_GRACE_PERIOD_SECONDS=5s (want a whole number"},
		{"ZTUNNEL_WORKER_THREADS=x%", "", "invalid env var ZTUNNEL_WORKER_THREADS=x% (invalid percentage: x)"},
		{"ZTUNNEL_CPU_LIMIT=1.5", "", "invalid env var ZTUNNEL_CPU_LIMIT=1.5 (want a whole number"},
		{"ZTUNNEL_RESOURCE_CPU_LIMIT=", "", "invalid env var ZTUNNEL_RESOURCE_CPU_LIMIT= (must be a positive CPU quantity)"},
		{"ZTUNNEL_RESOURCE_CPU_REQUEST=-1", "", "invalid env var ZTUNNEL_RESOURCE_CPU_REQUEST=-1 (must be a positive CPU quantity)"},
		{"RUST_LOG=loud", "", `invalid env var RUST_LOG=loud ("loud" is none of`},
		{"PROXY_MODE=dedicated", "", "invalid env var PROXY_MODE=dedicated (only shared is served"},
		{"ENABLE_PROXY=false", "", "invalid env var ENABLE_PROXY=false (nothing would be served)"},
		{"SLUICE_POD_DRAIN=-1s", "", "invalid env var SLUICE_POD_DRAIN=-1s (want a duration"},
		{"", "--loops=257", "invalid flag --loops=257 (want a whole number of 0 to 256)"},
		{"", "--pipe-bytes=4096", "invalid flag --pipe-bytes=4096 (want a whole number of 65536"},
		{"", "--idle-timeout=-1s", "invalid flag --idle-timeout=-1s (want a duration of 0s"},
		{"", "--connect-timeout=0", "invalid flag --connect-timeout=0 (want a duration of 1ms"},
		{"", "--source-ports=1-2,9", `invalid flag --source-ports=1-2,9 ("9" is no range; want FIRST-LAST`},
		{"", "--log-format=xml", `invalid flag --log-format=xml (want plain or json, not "xml")`},
		{"", "--admin-addr=localhost", "invalid flag --admin-addr=localhost (want HOST:PORT"},
		{"", "--ready-addr=:99999", "invalid flag --ready-addr=:99999 (want HOST:PORT"},
		{"", "--profile=all", "invalid flag --profile=all (want cpu, mem, block, mutex, trace, or nothing)"},
		{"", "--access-log=1", "invalid flag --access-log=1 (want true or false)"},
	}
	var env, args []string
	for _, f := range all {
		if f.env != "" {
			env = append(env, f.env)
		} else {
			args = append(args, f.arg)
		}
	}
	_, err := parse(t, args, env...)
	if err == nil {
		t.Fatal("no error")
	}
	lines := strings.Split(err.Error(), "\n")
	for _, f := range all {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, f.want) }) {
			t.Errorf("no %q", f.want)
		}
	}
	if len(lines) != len(all) {
		t.Errorf("%d lines for %d faults:\n%v", len(lines), len(all), err)
	}
}

// A fault in a variable is one also where a flag beats it.
func TestFaultBehindFlag(t *testing.T) {
	if _, err := parse(t, []string{"--ipv4-only"}, "IPV6_ENABLED=maybe"); err == nil {
		t.Error("no error")
	}
}

// What is shown are the values in effect.
func TestShown(t *testing.T) {
	s, err := parse(t, []string{"--pod-drain=120", "--no-splice"}, "IPV6_ENABLED=false", "ZTUNNEL_WORKER_THREADS=5")
	if err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]any{
		"pod-drain": "2m0s", "no-splice": true, "ipv4-only": true, "loops": 5, "keepalive-retries": 9, "log-level": "info",
	} {
		if s.shown[flag] != want {
			t.Errorf("%s is shown as %#v, want %#v", flag, s.shown[flag], want)
		}
	}
	if len(s.shown) != len(s.table()) {
		t.Errorf("%d of %d settings are shown", len(s.shown), len(s.table()))
	}
}

// FuzzSettings reads any text for any setting: an error, or a value.
func FuzzSettings(f *testing.F) {
	f.Fuzz(func(t *testing.T, which uint8, text string) {
		table := new(settings).table()
		one := table[int(which)%len(table)]
		s, err := readSettings(flags{one.flag: text}, environment())
		if err == nil && s.shown[one.flag] == nil {
			t.Errorf("--%s=%q is taken and not shown", one.flag, text)
		}
	})
}
