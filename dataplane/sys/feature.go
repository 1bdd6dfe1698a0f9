package sys

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// A Feature is something that the running kernel may lack.
type Feature struct {
	Name, Since string // as an operator says it; first mainline release, "" for unknown
	probe       func() error

	mu    sync.Mutex
	known bool  // the probe gave a clear answer
	err   error // nil, or wraps ErrUnsupported
}

// NewFeature names a feature. The probe returns nil, an error that wraps
// ErrUnsupported, or any other one when it could not tell; it is run by the
// first Check that wants to know, and again until it gives a clear answer.
func NewFeature(name, since string, probe func() error) *Feature {
	return &Feature{Name: name, Since: since, probe: probe}
}

// Check reports why the feature cannot be used, or nil.
func (f *Feature) Check() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.known {
		f.err = f.probe()
		f.known = f.err == nil || errors.Is(f.err, ErrUnsupported)
		if f.err != nil && f.Since != "" {
			f.err = fmt.Errorf("%s (Linux %s): %w", f.Name, f.Since, f.err)
		}
	}
	return f.err
}

// What the sockets of the proxy and of its agent need.
var (
	FeatureTransparent4 = NewFeature("transparent IPv4 sockets, IP_TRANSPARENT", "2.6.28",
		optionProbe(unix.AF_INET, unix.SOL_IP, unix.IP_TRANSPARENT, 1))
	FeatureTransparent6 = NewFeature("transparent IPv6 sockets, IPV6_TRANSPARENT", "2.6.37",
		optionProbe(unix.AF_INET6, unix.SOL_IPV6, unix.IPV6_TRANSPARENT, 1))
	FeatureMark = NewFeature("marked sockets, SO_MARK", "2.6.25",
		optionProbe(unix.AF_INET, unix.SOL_SOCKET, unix.SO_MARK, 0x539))
	FeatureBindNoPort = NewFeature("source address without a port, IP_BIND_ADDRESS_NO_PORT", "4.2",
		optionProbe(unix.AF_INET, unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1))
	FeatureNamespaceCookie = NewFeature("namespace numbers that are never used again, SO_NETNS_COOKIE", "5.14",
		func() error {
			_, err := NamespaceCookie()
			return err
		})
)

// optionProbe sets an option on a TCP socket that goes nowhere.
func optionProbe(family, level, option, value int) func() error {
	return func() error {
		raw, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
		if err != nil {
			return unsupported(err)
		}
		defer unix.Close(raw)
		return unsupported(unix.SetsockoptInt(raw, level, option, value))
	}
}

// unsupported adds ErrUnsupported to the errors by which a kernel says so.
func unsupported(err error) error {
	switch err {
	case unix.ENOPROTOOPT, unix.EAFNOSUPPORT, unix.EPROTONOSUPPORT, unix.EOPNOTSUPP:
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return err
}
