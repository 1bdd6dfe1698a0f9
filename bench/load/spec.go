package load

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// A Kind is a shape of load.
type Kind string

// The kinds.
const (
	Bulk     Kind = "bulk"     // streams that are as fast as they can be
	Exchange Kind = "exchange" // request and response on connections that stay
	Churn    Kind = "churn"    // connect, one exchange, close
	Idle     Kind = "idle"     // connections that do nothing after one exchange
)

// A Closer says who ends a connection of churn, and how.
type Closer string

// The closers.
const (
	ClientFIN   Closer = "client" // client closes first
	ServerFIN   Closer = "server" // server closes first
	ClientReset Closer = "reset"  // client resets
)

// A Spec says what a client does. Server and client are given the same one.
type Spec struct {
	Kind    Kind             `json:"kind"`
	To      []netip.AddrPort `json:"to"`      // connections take them in turn
	Conns   int              `json:"conns"`   // at a time
	Threads int              `json:"threads"` // of the client and of the server; 0 means 1
	Down    bool             `json:"down"`    // bulk: the server sends
	Request int              `json:"request"` // bytes
	Reply   int              `json:"reply"`   // bytes
	Rate    float64          `json:"rate"`    // exchanges a second, open loop; 0 means closed loop
	Close   Closer           `json:"close"`
	Warm    time.Duration    `json:"warm"`   // not counted
	Length  time.Duration    `json:"length"` // counted
	Seed    uint64           `json:"seed"`
	// Compare all bytes of one read in Sample, and the first and last 64 of the
	// others; 0 means of each read. Comparing all slows bulk down (BENCHMARKS.md).
	Sample int `json:"sample,omitempty"`
}

// patience is how long one connection may wait before it counts as stalled, and
// how long the end of a run waits for what is under way.
const patience = time.Second

// maxMessage bounds a request and a reply: each is one window of the pattern.
const maxMessage = windowBytes

// check reports every fault.
func (s Spec) check() (Spec, error) {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if s.Threads == 0 {
		s.Threads = 1
	}
	if s.Close == "" {
		s.Close = ClientFIN
	}
	switch s.Kind {
	case Bulk:
		if s.Rate != 0 {
			fault("bulk has no rate; want 0, not %v", s.Rate)
		}
	case Exchange, Churn, Idle:
		if s.Request < 1 || s.Request > maxMessage {
			fault("request is %d bytes; want 1 to %d", s.Request, maxMessage)
		}
		if s.Reply < 1 || s.Reply > maxMessage {
			fault("reply is %d bytes; want 1 to %d", s.Reply, maxMessage)
		}
	default:
		fault("kind is %q; want %s, %s, %s or %s", s.Kind, Bulk, Exchange, Churn, Idle)
	}
	switch s.Close {
	case ClientFIN, ServerFIN, ClientReset:
	default:
		fault("close is %q; want %s, %s or %s", s.Close, ClientFIN, ServerFIN, ClientReset)
	}
	if len(s.To) == 0 {
		fault("no address to go to")
	}
	if s.Conns < 1 {
		fault("%d connections; want at least 1", s.Conns)
	}
	if s.Threads < 1 || s.Threads > max(s.Conns, 1) {
		fault("%d threads for %d connections; want 1 to as many", s.Threads, s.Conns)
	}
	if s.Rate < 0 {
		fault("rate is %v; want 0 or more", s.Rate)
	}
	if s.Length <= 0 {
		fault("length is %v; want more than 0", s.Length)
	}
	return s, errors.Join(faults...)
}
