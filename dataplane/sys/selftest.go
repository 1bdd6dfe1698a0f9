package sys

import "runtime"

// CanEnterNamespaces tries to enter the thread's own network namespace, which
// needs what entering any does and changes nothing.
func CanEnterNamespaces() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	own, err := ThreadNamespace()
	if err != nil {
		return err
	}
	defer own.Close()
	return Setns(own)
}
