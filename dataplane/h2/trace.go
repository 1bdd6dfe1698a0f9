package h2

import "encoding/hex"

// traceBytes is the length of a traceparent of version 00.
const traceBytes = 55

// A TraceParent names a trace and the span that a flow belongs to (W3C Trace Context).
type TraceParent struct {
	Trace [16]byte
	Span  [8]byte
}

// Append appends the value of the traceparent field: version 00, not sampled.
func (t TraceParent) Append(b []byte) []byte {
	b = hex.AppendEncode(append(b, "00-"...), t.Trace[:])
	b = hex.AppendEncode(append(b, '-'), t.Span[:])
	return append(b, "-00"...)
}

// ParseTraceParent reads the value of a traceparent field. False for anything that is
// not one, which a new one replaces.
func ParseTraceParent(b []byte) (t TraceParent, ok bool) {
	if len(b) != traceBytes || b[2] != '-' || b[35] != '-' || b[52] != '-' {
		return t, false
	}
	var version, flags [1]byte
	ok = lowerHex(version[:], b[:2]) && lowerHex(t.Trace[:], b[3:35]) &&
		lowerHex(t.Span[:], b[36:52]) && lowerHex(flags[:], b[53:])
	if !ok || version[0] == 0xff || t.Trace == [16]byte{} || t.Span == [8]byte{} {
		return TraceParent{}, false
	}
	return t, true
}

// lowerHex decodes lower-case digits, twice as many as to has bytes.
func lowerHex(to, from []byte) bool {
	for i := range to {
		hi, lo := hexDigit(from[2*i]), hexDigit(from[2*i+1])
		if hi < 0 || lo < 0 || isUpper(from[2*i]) || isUpper(from[2*i+1]) {
			return false
		}
		to[i] = byte(hi<<4 | lo)
	}
	return true
}

func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
