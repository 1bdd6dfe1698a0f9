package lab

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Tuning is what the lab could set on this kernel.
type Tuning struct {
	// Congestion is the congestion control of every namespace: cubic, or reno
	// where cubic cannot be had. Some machines default to bbr, whose pacing makes
	// every figure of a lab meaningless.
	Congestion string
}

// tuneHost lets other network namespaces use cubic. The initial one alone can
// allow that (tcp_set_default_congestion_control in Linux 6.18 refuses others
// what is not in tcp_allowed_congestion_control).
func tuneHost() (Tuning, error) {
	const allowed = "/proc/sys/net/ipv4/tcp_allowed_congestion_control"
	text, err := os.ReadFile(allowed)
	if err != nil {
		return Tuning{}, err
	}
	now := strings.Fields(string(text))
	if slices.Contains(now, "cubic") {
		return Tuning{Congestion: "cubic"}, nil
	}
	want := strings.Join(append([]string{"cubic"}, now...), " ")
	if err := os.WriteFile(allowed, []byte(want), 0); err != nil {
		return Tuning{Congestion: "reno"}, nil // not the initial namespace, or no cubic: reno is always allowed
	}
	return Tuning{Congestion: "cubic"}, nil
}

// common are the settings of every namespace. Those that the kernel copies from
// the initial namespace are all set, so that a lab is the same on every machine.
func (t Tuning) common() [][2]string {
	return [][2]string{
		{"net.ipv4.tcp_congestion_control", t.Congestion},
		{"net.ipv4.tcp_tw_reuse", "1"},
		{"net.ipv4.tcp_no_metrics_save", "1"},
		{"net.ipv4.ip_local_port_range", "32768 60999"},
		{"net.ipv4.conf.all.rp_filter", "0"},
		{"net.ipv4.conf.default.rp_filter", "0"},
		{"net.ipv4.conf.all.send_redirects", "0"},
		{"net.ipv4.conf.default.send_redirects", "0"},
		// Addresses are usable at once, and nobody is asked for more.
		{"net.ipv6.conf.all.accept_dad", "0"},
		{"net.ipv6.conf.default.accept_dad", "0"},
		{"net.ipv6.conf.all.accept_ra", "0"},
		{"net.ipv6.conf.default.accept_ra", "0"},
	}
}

// forwarding makes a router of a namespace.
func forwarding() [][2]string {
	return [][2]string{
		{"net.ipv4.ip_forward", "1"},
		{"net.ipv6.conf.all.forwarding", "1"},
		{"net.ipv6.conf.default.forwarding", "1"},
	}
}

// noIPv6 switches IPv6 off, for links that come later as well.
func noIPv6() [][2]string {
	return [][2]string{
		{"net.ipv6.conf.all.disable_ipv6", "1"},
		{"net.ipv6.conf.default.disable_ipv6", "1"},
		{"net.ipv6.conf.lo.disable_ipv6", "1"},
	}
}

// apply writes settings on one visit to the namespace.
func (s *Space) apply(settings ...[2]string) error {
	return s.Do(func() error {
		for _, kv := range settings {
			if err := os.WriteFile(sysctlPath(kv[0]), []byte(kv[1]), 0); err != nil {
				return fmt.Errorf("set %s to %s in %s: %w", kv[0], kv[1], s.Name, err)
			}
		}
		return nil
	})
}
