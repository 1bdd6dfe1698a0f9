// Package redirect turns what is wanted for a pod into what the kernel must
// hold there, as plain data.
//
// Data enters as an Intent and leaves as a Plan: one nf_tables table, policy
// rules, routes and sysctls. Packages nft and rt carry a Plan to the kernel,
// apply puts the steps in order. Pure: no system calls, no clock, nothing owned.
package redirect

import (
	"errors"
	"fmt"
	"net/netip"
)

// A Mode is the way in which a pod's traffic is sent to the proxy.
type Mode uint8

const (
	// ModeDirect is TPROXY both ways, without NAT and without conntrack.
	ModeDirect Mode = iota
	// ModeRedirect is NAT REDIRECT, as istio-cni programs it. Pods of that mode
	// are served, but not programmed: NewPlan refuses it.
	ModeRedirect
)

// ErrMode is wrapped by errors about a mode that is unknown or can't be planned.
var ErrMode = errors.New("capture mode not available")

// ParseMode reads the name of a mode.
func ParseMode(name string) (Mode, error) {
	switch name {
	case "direct":
		return ModeDirect, nil
	case "redirect":
		return ModeRedirect, nil
	}
	return 0, fmt.Errorf("mode %q: %w; known are direct and redirect", name, ErrMode)
}

func (m Mode) String() string {
	switch m {
	case ModeDirect:
		return "direct"
	case ModeRedirect:
		return "redirect"
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// MarshalText writes the mode's name.
func (m Mode) MarshalText() ([]byte, error) {
	if m > ModeRedirect {
		return nil, fmt.Errorf("%v: %w", m, ErrMode)
	}
	return []byte(m.String()), nil
}

// UnmarshalText reads the mode's name.
func (m *Mode) UnmarshalText(text []byte) error {
	v, err := ParseMode(string(text))
	if err != nil {
		return err
	}
	*m = v
	return nil
}

// An Intent says what is wanted for one pod. The zero value is mode direct
// without DNS capture, with the usual probe addresses.
type Intent struct {
	Mode Mode `json:"mode"`
	// DNS captures the pod's DNS queries, too.
	DNS bool `json:"dns"`
	// Probe4 and Probe6 are the addresses from which the node's health probes
	// come; they are never captured. Not valid means 169.254.7.127 and
	// fd16:9254:7127:1337:ffff:ffff:ffff:ffff.
	Probe4 netip.Addr `json:"probe4,omitzero"`
	Probe6 netip.Addr `json:"probe6,omitzero"`
}
