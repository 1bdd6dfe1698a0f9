package load

import "time"

// A Result is what one side saw.
type Result struct {
	// Of the counted time alone.
	Seconds   float64 `json:"seconds"`
	Bytes     int64   `json:"bytes"`     // payload: bulk one way, else both ways
	Exchanges int64   `json:"exchanges"` // requests that were answered in full
	Opened    int64   `json:"opened"`    // connections
	Unserved  int64   `json:"unserved"`  // open loop: due, but not done at the end
	Latency   Latency `json:"latency"`   // of exchanges; churn: from connect to the whole reply

	// Of the whole run, warm-up and end included.
	Answered int64            `json:"answered"` // exchanges
	Sent     int64            `json:"sent"`
	Received int64            `json:"received"` // all of them compared with the pattern
	Errors   map[string]int64 `json:"errors"`   // by step and cause; never dropped

	histogram Histogram
}

// Failures is the number of errors.
func (r *Result) Failures() int64 {
	var n int64
	for _, v := range r.Errors {
		n += v
	}
	return n
}

func (r *Result) fail(step, cause string) { r.failures(step+": "+cause, 1) }

func (r *Result) failures(key string, n int64) {
	if r.Errors == nil {
		r.Errors = make(map[string]int64)
	}
	r.Errors[key] += n
}

func (r *Result) add(o *Result) {
	r.Bytes += o.Bytes
	r.Exchanges += o.Exchanges
	r.Opened += o.Opened
	r.Unserved += o.Unserved
	r.Answered += o.Answered
	r.Sent += o.Sent
	r.Received += o.Received
	for k, v := range o.Errors {
		r.failures(k, v)
	}
	r.histogram.Add(&o.histogram)
}

// An Event is one line of what a load process says, as JSON.
type Event struct {
	Event  string        `json:"event"` // ready, begin, end or result
	At     time.Duration `json:"at"`    // on the clock of the process
	Result *Result       `json:"result,omitempty"`
}

// The events. A server says ready and result; a client begin, end and result.
const (
	EventReady  = "ready"  // the server listens
	EventBegin  = "begin"  // the counted time begins; idle: nothing is open yet
	EventEnd    = "end"    // the counted time is over; idle: all is still open
	EventResult = "result" // the last line
)
