package redirect

import (
	"errors"
	"fmt"
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
