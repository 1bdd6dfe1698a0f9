package testkit

import "os"

// Soak reports whether the long forms of tests are wanted (make soak).
func Soak() bool { return os.Getenv("SLUICE_SOAK") != "" }

// Scaled returns short in a merge's run and long in a soak: a count, a size or
// a duration.
func Scaled[T any](short, long T) T {
	if Soak() {
		return long
	}
	return short
}
