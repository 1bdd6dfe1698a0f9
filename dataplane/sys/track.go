//go:build !checked

package sys

// Checked reports a build with the "checked" tag, in which ownership of
// descriptors, loop threads and blocks is verified.
const Checked = false

func trackOpen(int)   {}
func trackClosed(int) {}

func countCall() {}

// Calls is the number of system calls made through this package; it counts in
// builds with the "checked" tag only.
func Calls() uint64 { return 0 }

// OpenFDs lists the descriptors that an FD owns with the stack that made each;
// in builds with the "checked" tag only.
func OpenFDs() map[int]string { return nil }
