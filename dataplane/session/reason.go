package session

import (
	"errors"

	"github.com/sluice-mesh/sluice/dataplane/dial"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// dialReason is the one place that turns the error of a connect into a close
// reason.
func dialReason(err error) flow.CloseReason {
	if errors.Is(err, dial.ErrTimeout) || errors.Is(err, dial.ErrSilent) {
		return flow.CloseConnect
	}
	switch sys.ErrnoOf(err) {
	case sys.ECONNREFUSED, sys.ECONNRESET:
		return flow.CloseRefused
	case sys.EHOSTUNREACH, sys.ENETUNREACH, sys.EACCES, sys.EPERM, sys.EHOSTDOWN, sys.ENETDOWN, sys.EINVAL:
		// EACCES and EPERM: a prohibiting route or a filter. EINVAL: an
		// address that can't be connected to, such as one without a scope.
		return flow.CloseUnreachable
	case sys.ETIMEDOUT:
		return flow.CloseConnect
	case sys.EADDRNOTAVAIL, sys.EADDRINUSE:
		return flow.CloseSourcePorts
	case sys.EMFILE, sys.ENFILE, sys.ENOBUFS, sys.ENOMEM, sys.ENOSPC:
		return flow.CloseLimit
	}
	return flow.CloseInternal
}
