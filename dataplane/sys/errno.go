package sys

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Errno is a bare kernel error; the hot path compares it with ==.
type Errno = unix.Errno

// The errors that callers tell apart.
const (
	EAGAIN        = unix.EAGAIN
	EINTR         = unix.EINTR
	EINPROGRESS   = unix.EINPROGRESS
	ECONNRESET    = unix.ECONNRESET
	ECONNREFUSED  = unix.ECONNREFUSED
	ECONNABORTED  = unix.ECONNABORTED
	EPIPE         = unix.EPIPE
	ETIMEDOUT     = unix.ETIMEDOUT
	EHOSTUNREACH  = unix.EHOSTUNREACH
	ENETUNREACH   = unix.ENETUNREACH
	EADDRINUSE    = unix.EADDRINUSE
	EADDRNOTAVAIL = unix.EADDRNOTAVAIL
	EMFILE        = unix.EMFILE
	ENFILE        = unix.ENFILE
	ENOBUFS       = unix.ENOBUFS
	ENOMEM        = unix.ENOMEM
	ENOENT        = unix.ENOENT
	EEXIST        = unix.EEXIST
	EPERM         = unix.EPERM
	EACCES        = unix.EACCES
	EINVAL        = unix.EINVAL
	ENOTCONN      = unix.ENOTCONN
	ENOPROTOOPT   = unix.ENOPROTOOPT
	EOPNOTSUPP    = unix.EOPNOTSUPP
	EBADF         = unix.EBADF
	EAFNOSUPPORT  = unix.EAFNOSUPPORT
	EHOSTDOWN     = unix.EHOSTDOWN
	ENETDOWN      = unix.ENETDOWN
	ENOSPC        = unix.ENOSPC
)

// ErrUnsupported is wrapped by the error of a Feature that this kernel lacks.
var ErrUnsupported = errors.New("not supported by this kernel")

// ErrnoOf finds the kernel error inside err; 0 when there is none.
func ErrnoOf(err error) Errno {
	if e, ok := errors.AsType[unix.Errno](err); ok {
		return e
	}
	return 0
}
