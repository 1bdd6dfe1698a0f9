package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// A variable is one of the mesh's own proxy. read returns the text for the flag
// that it stands for; without a flag it keeps the value itself.
type variable struct {
	name string
	flag string
	read func(s *settings, v string) (text string, err error)
}

// variables are those that mean something here. Of two for one flag the later one
// counts.
func variables() []variable {
	return []variable{
		{"INPOD_UDS", "zds-socket", same},
		{"INPOD_PORT_REUSE", "no-port-reuse", not},
		{"LOCAL_XDS_PATH", "mesh-file", same},
		{"PACKET_MARK", "no-mark", noMark},
		{"ENABLE_ORIG_SRC", "no-source", not},
		{"IPV6_ENABLED", "ipv4-only", not},
		{"KEEPALIVE_ENABLED", "keepalive", same},
		{"KEEPALIVE_TIME", "keepalive-time", same},
		{"KEEPALIVE_INTERVAL", "keepalive-interval", same},
		{"KEEPALIVE_RETRIES", "keepalive-retries", same},
		{"TERMINATION_GRACE_PERIOD_SECONDS", "drain", drainWithin},
		{"CONNECTION_TERMINATION_DEADLINE", "drain", same},
		{"RUST_LOG", "log-level", same},
		{"LOG_FORMAT", "log-format", jsonOrPlain},
		{"ZTUNNEL_CPU_LIMIT", "", func(s *settings, v string) (_ string, err error) {
			s.cpus.node, err = parseInt(v, 1, 1<<16)
			return "", err
		}},
		{"ZTUNNEL_RESOURCE_CPU_LIMIT", "", func(s *settings, v string) (_ string, err error) {
			s.cpus.limit, err = parseCPUs(v)
			return "", err
		}},
		{"ZTUNNEL_RESOURCE_CPU_REQUEST", "", func(s *settings, v string) (_ string, err error) {
			s.cpus.request, err = parseCPUs(v)
			return "", err
		}},
		{"ZTUNNEL_WORKER_THREADS", "", func(s *settings, v string) (_ string, err error) {
			s.cpus.threads, err = parseThreads(v)
			return "", err
		}},
		{"PROXY_MODE", "", func(_ *settings, v string) (string, error) {
			switch v {
			case "shared":
				return "", nil
			case "dedicated":
				return "", errors.New("only shared is served: one proxy for all pods of a node")
			}
			return "", errors.New("PROXY_MODE must be one of dedicated, shared")
		}},
		{"ENABLE_PROXY", "", func(_ *settings, v string) (string, error) {
			on, err := parseBool(v)
			if err == nil && !on {
				err = errors.New("nothing would be served")
			}
			return "", err
		}},
		{"USER_TIMEOUT_ENABLED", "", func(s *settings, v string) (string, error) {
			on, err := parseBool(v)
			if on {
				s.warnings = append(s.warnings, "USER_TIMEOUT_ENABLED has no effect yet: silent peers are found by keepalive alone")
			}
			return "", err
		}},
	}
}

func same(_ *settings, v string) (string, error) { return v, nil }

// not is for a variable that says the opposite of its flag.
func not(_ *settings, v string) (string, error) {
	on, err := parseBool(v)
	return strconv.FormatBool(!on), err
}

// noMark allows the mark that the capture rules know, or none.
func noMark(_ *settings, v string) (string, error) {
	n, err := strconv.ParseUint(v, 10, 32)
	if err != nil || n != 0 && n != sys.Mark {
		return "", fmt.Errorf("want %d, which the capture rules know, or 0 for none", sys.Mark)
	}
	return strconv.FormatBool(n == 0), nil
}

// jsonOrPlain is plain for all that is not json, as the variable is documented.
func jsonOrPlain(_ *settings, v string) (string, error) {
	if v != "json" {
		v = "plain"
	}
	return v, nil
}

// drainWithin leaves some of the time that Kubernetes gives a pod to the rest of
// the shutdown.
func drainWithin(_ *settings, v string) (string, error) {
	n, err := parseInt(v, 0, 1<<31-1)
	if err != nil {
		return "", err
	}
	if n > 10 {
		n -= 5
	} else {
		n--
	}
	return (time.Duration(max(n, 1)) * time.Second).String(), nil
}
