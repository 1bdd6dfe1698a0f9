package main

import (
	"fmt"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// selfTest finds out before anything else whether this process may do what a
// proxy has to: enter namespaces, and mark sockets and have them use addresses
// that are not its own.
func selfTest(noMark bool) error {
	if err := sys.CanEnterNamespaces(); err != nil {
		return fmt.Errorf("enter a network namespace, its own for a try: %w; give the process CAP_SYS_ADMIN", err)
	}
	var f sys.FD
	if err := sys.Socket(&f, sys.IPv4); err != nil {
		return fmt.Errorf("make a socket: %w", err)
	}
	defer f.Close()
	if !noMark {
		if err := sys.SetMark(&f, sys.Mark); err != nil {
			return fmt.Errorf("mark a socket: %w; give the process CAP_NET_ADMIN", err)
		}
	}
	if err := sys.SetTransparent(&f, sys.IPv4); err != nil {
		return fmt.Errorf("make a socket transparent: %w; give the process CAP_NET_ADMIN", err)
	}
	return nil
}
