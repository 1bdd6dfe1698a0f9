package main

import "testing"

func TestLoops(t *testing.T) {
	for _, tt := range []struct {
		name                          string
		threads, limit, request, node string
		usable, want                  int
	}{
		{"explicit", "4", "", "", "", 8, 4},
		{"half", "50%", "", "", "", 8, 4},
		{"rounded up", "30%", "", "", "", 16, 5},
		{"at least one", "10%", "", "", "", 4, 1},
		{"all of the limit", "0", "", "", "6", 8, 6},
		{"percent of the limit", "50%", "3", "", "12", 8, 2},
		{"nothing said", "", "", "", "", 4, 4},
		{"nothing said, a large machine", "", "", "", "", 96, 16},
		{"limit 16", "", "16", "", "", 8, 16},
		{"limit 1", "", "1", "", "", 8, 1},
		{"limit 500m", "", "500m", "", "", 8, 1},
		{"limit 2500m", "", "2500m", "", "", 8, 3},
		{"limit 1.5", "", "1.5", "", "", 8, 2},
		{"no limit on a node of 32", "", "", "", "32", 32, 8},
		{"no limit on a small node", "", "", "", "4", 4, 2},
		{"request 8", "", "", "8", "4", 4, 8},
		{"request 1", "", "", "1", "4", 4, 2},
		{"limit above request", "", "16", "4", "", 8, 16},
		{"request above limit", "", "4", "8", "", 8, 8},
		{"limit beats the node", "", "3", "", "12", 8, 3},
	} {
		var env []string
		for name, v := range map[string]string{
			"ZTUNNEL_WORKER_THREADS": tt.threads, "ZTUNNEL_RESOURCE_CPU_LIMIT": tt.limit,
			"ZTUNNEL_RESOURCE_CPU_REQUEST": tt.request, "ZTUNNEL_CPU_LIMIT": tt.node,
		} {
			if v != "" {
				env = append(env, name+"="+v)
			}
		}
		s, err := parse(t, nil, env...)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if got := s.cpus.loops(tt.usable); got != tt.want {
			t.Errorf("%s: %d loops, want %d", tt.name, got, tt.want)
		}
	}
	for _, v := range []string{"0%", "101%", "NaN%", "x%", "x", "-1", "1.5", "256", ""} {
		if n, err := parseThreads(v); err == nil {
			t.Errorf("%q threads: %+v", v, n)
		}
	}
	for _, v := range []string{"0", "-1", "x", "1e9", "NaN", "+Inf", "m", ""} {
		if n, err := parseCPUs(v); err == nil {
			t.Errorf("%q CPUs: %d", v, n)
		}
	}
}
