// Package redirect turns what is wanted for a pod into what the kernel must
// hold there, as plain data.
//
// Data enters as an Intent and leaves as a Plan: one nf_tables table, policy
// rules, routes and sysctls. Packages nft and rt carry a Plan to the kernel,
// apply puts the steps in order. Pure: no system calls, no clock, nothing owned.
package redirect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
)

// An Intent says what is wanted for one pod. The zero value is mode direct
// without DNS capture, with the usual probe addresses.
type Intent struct {
	Mode Mode `json:"mode"`
	// DNS captures the pod's DNS queries, too.
	DNS bool `json:"dns,omitempty"`
	// Probe4 and Probe6 are the addresses from which the node's health probes
	// come; they are never captured. Not valid means DefaultProbe4 and
	// DefaultProbe6.
	Probe4 netip.Addr `json:"probe4,omitzero"`
	Probe6 netip.Addr `json:"probe6,omitzero"`
	// Require names nf_tables expressions that the kernel must have besides those
	// of the rules. Nothing is touched on a kernel that lacks one.
	Require []string `json:"require,omitempty"`
}

// DefaultProbe4 is where the node's health probes come from.
func DefaultProbe4() netip.Addr { return netip.AddrFrom4([4]byte{169, 254, 7, 127}) }

// DefaultProbe6 is its IPv6 twin.
func DefaultProbe6() netip.Addr {
	return netip.AddrFrom16([16]byte{0xfd, 0x16, 0x92, 0x54, 0x71, 0x27, 0x13, 0x37, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
}

// ParseIntent reads the JSON form of one Intent. Unknown fields, and anything
// behind it, are refused.
func ParseIntent(text []byte) (Intent, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var in Intent
	if err := dec.Decode(&in); err != nil {
		return Intent{}, fmt.Errorf("intent: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Intent{}, errors.New("intent: more text behind the first value")
	}
	if _, err := in.check(); err != nil {
		return Intent{}, err
	}
	return in, nil
}

// maxRequire bounds Require, and maxName the length of a name in it
// (NFT_NAME_MAXLEN is longer; no expression of any kernel comes near).
const (
	maxRequire = 16
	maxName    = 31
)

// check returns in with defaults filled in, or every fault found.
func (in Intent) check() (Intent, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("intent: "+format, args...)) }
	if in.Mode > ModeRedirect {
		fault("%v: %w", in.Mode, ErrMode)
	}
	if !in.Probe4.IsValid() {
		in.Probe4 = DefaultProbe4()
	} else if !in.Probe4.Is4() || !usable(in.Probe4) {
		fault("probe4 is %v; want a unicast IPv4 address outside 127.0.0.0/8", in.Probe4)
	}
	if !in.Probe6.IsValid() {
		in.Probe6 = DefaultProbe6()
	} else if !in.Probe6.Is6() || in.Probe6.Is4In6() || in.Probe6.Zone() != "" || in.Probe6.IsLinkLocalUnicast() || !usable(in.Probe6) {
		fault("probe6 is %v; want a unicast IPv6 address that is neither ::1 nor link-local", in.Probe6)
	}
	if len(in.Require) > maxRequire {
		fault("require names %d expressions; want at most %d", len(in.Require), maxRequire)
	}
	for _, name := range in.Require {
		if !validName(name) {
			fault("require names %q; want 1 to %d lower-case letters, digits and underscores", name, maxName)
		}
	}
	return in, errors.Join(faults...)
}

func usable(a netip.Addr) bool {
	return !a.IsUnspecified() && !a.IsLoopback() && !a.IsMulticast() && a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

func validName(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}
