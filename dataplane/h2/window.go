package h2

// A Window is how much one side may still send. SETTINGS can make it negative.
type Window int32

// Take uses n bytes up, or reports that there are not so many. Nothing can be taken
// from any window: empty frames are not subject to it (RFC 9113 6.9.1).
func (w *Window) Take(n uint32) bool {
	if n > 0 && int64(n) > int64(*w) {
		return false
	}
	*w -= Window(n)
	return true
}

// Add gives n bytes more, or reports that the window would exceed 2^31-1, which is a
// FLOW_CONTROL_ERROR (RFC 9113 6.9.1).
func (w *Window) Add(n uint32) bool { return w.Shift(int64(n)) }

// Shift moves the window by the difference between two values of
// SETTINGS_INITIAL_WINDOW_SIZE; false as for Add (RFC 9113 6.9.2). A window can't
// fall below -2^31+1: each value of the setting is at most 2^31-1.
func (w *Window) Shift(delta int64) bool {
	v := int64(*w) + delta
	if v > maxWindow || v < -maxWindow {
		return false
	}
	*w = Window(v)
	return true
}

// Left is how much may be sent now, never negative.
func (w Window) Left() int { return max(0, int(w)) }

// An Inflow is the window of what the peer sends. Bytes that were read are owed to
// the peer until they are granted again by WINDOW_UPDATE.
type Inflow struct {
	Window Window // what the peer may still send
	Owed   uint32 // read, and not granted again yet
}

// NewInflow is a window of n bytes.
func NewInflow(n uint32) Inflow { return Inflow{Window: Window(n)} }

// Take counts the Length of a DATA event. False means that the peer sent more than
// it may, a FLOW_CONTROL_ERROR.
func (f *Inflow) Take(length uint32) bool { return f.Window.Take(length) }

// Owe says that n bytes of what was taken are out of the way.
func (f *Inflow) Owe(n uint32) { f.Owed += n }

// Grant gives back what is owed, once that is at least the threshold: the increment
// for AppendWindowUpdate, 0 for none.
func (f *Inflow) Grant(threshold uint32) uint32 {
	n := f.Owed
	if n == 0 || n < threshold || !f.Window.Add(n) {
		return 0
	}
	f.Owed = 0
	return n
}

// Widen adds n bytes to what the peer may have on its way: the increment for
// AppendWindowUpdate, less than n when the window is full.
func (f *Inflow) Widen(n uint32) uint32 {
	n = uint32(min(int64(n), maxWindow-int64(f.Window)-int64(f.Owed)))
	f.Window.Add(n)
	return n
}
