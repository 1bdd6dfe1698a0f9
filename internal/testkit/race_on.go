//go:build race

package testkit

// RaceEnabled reports a build with the race detector, in which allocation counts
// and memory figures mean nothing.
const RaceEnabled = true
