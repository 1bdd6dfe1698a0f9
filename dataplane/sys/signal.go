package sys

import "golang.org/x/sys/unix"

// SIGTERM asks a process to end in good order.
const SIGTERM = unix.SIGTERM
