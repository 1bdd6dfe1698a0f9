package load

import "time"

// A Clock reads monotonic time since it was started. Time of day never enters
// a figure.
type Clock struct{ start time.Time }

// StartClock starts a clock at zero.
func StartClock() Clock { return Clock{time.Now()} }

// Now is the time since the start.
func (c Clock) Now() time.Duration { return time.Since(c.start) }
