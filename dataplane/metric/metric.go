// Package metric holds the counters of one loop. They are plain fields, written
// by the loop's thread only; a scrape posts one call to each loop, which copies
// its Set. Label values come from closed types, never from addresses or text.
package metric

// A Counter names one counter of a Set.
type Counter uint8

// A Gauge names one gauge of a Set.
type Gauge uint8

// The counters. Each is exported under the name in Counters.
const (
	Accepted          Counter = iota // connections accepted
	AcceptErrors                     // accept calls that failed with anything but "nothing there"
	MovedIn                          // flows handed to this loop by another one
	StaleEvents                      // events for a registration that was gone
	Turns                            // turns of the loop
	Sleeps                           // turns that had to wait
	Promoted                         // directions promoted to splice
	Demoted                          // directions put back to copying
	PipesExhausted                   // promotions refused because no pipe was left
	CopiedBytes                      // bytes moved through user space
	SplicedBytes                     // bytes moved by splice
	UpBytes                          // bytes from clients to servers
	DownBytes                        // bytes from servers to clients
	Dials                            // connects started
	DialSilent                       // connects on the pod's own path that were silent and tried again
	SourcePortSkips                  // source ports passed over because they were taken
	SourcePortSpill                  // source ports taken outside the preferred range and parity
	Unspoofable                      // flows dialled without the client's address because it is link-local
	UnboundSource                    // outward flows whose client address is not one of the pod's
	SocketsMade                      // sockets made inside pods
	LogDropped                       // access-log records dropped because the ring was full
	Panics                           // faults that ended one flow
	Frozen                           // flows written down by Freeze
	Thawed                           // flows taken up from a frozen state
	ThawRefused                      // frozen states that could not be taken up
	Tunnels                          // HBONE tunnels begun, in both roles
	Handshakes                       // of these, which shook hands
	HandshakeFailures                // and which did not
	TunnelFaults                     // tunnels ended because the peer broke the protocol
	StreamFaults                     // streams on which it did
	Streams                          // streams opened by us
	StreamsRetried                   // opened again, after the peer did nothing for them
	RecordsSealed                    // TLS records sealed
	counters
)

// The gauges.
const (
	OpenFlows   Gauge = iota // flows that live on the loop
	HeldBytes                // bytes taken from one side and not yet taken by the other
	HeldBlocks               // blocks in use
	PipesInUse               // pipes that hold data
	SpareSocket              // sockets made ahead
	OpenTunnels              // HBONE tunnels, in both roles
	OpenStreams              // streams in them
	gauges
)

// Counts of counters and gauges, for tables.
const (
	NumCounters = int(counters)
	NumGauges   = int(gauges)
)

// MaxReasons and MaxPaths bound the close reasons and paths in Closed.
const (
	MaxReasons = 32
	MaxPaths   = 4
)

// A Set is all that one loop counts.
type Set struct {
	counters [NumCounters]uint64
	gauges   [NumGauges]int64
	Opened   [MaxPaths]uint64             // flows, by path
	Up, Down [MaxPaths]uint64             // bytes from clients to servers and back, by path
	Closed   [MaxPaths][MaxReasons]uint64 // flows, by path and close reason
}

// Add adds n to counter c.
func (s *Set) Add(c Counter, n uint64) { s.counters[c] += n }

// Inc adds one to counter c.
func (s *Set) Inc(c Counter) { s.counters[c]++ }

// Move adds n, which may be negative, to gauge g.
func (s *Set) Move(g Gauge, n int64) { s.gauges[g] += n }

// Count reads counter c.
func (s *Set) Count(c Counter) uint64 { return s.counters[c] }

// Level reads gauge g.
func (s *Set) Level(g Gauge) int64 { return s.gauges[g] }

// Merge adds all of o to s.
func (s *Set) Merge(o *Set) {
	for i := range s.counters {
		s.counters[i] += o.counters[i]
	}
	for i := range s.gauges {
		s.gauges[i] += o.gauges[i]
	}
	for p := range s.Opened {
		s.Opened[p] += o.Opened[p]
		s.Up[p] += o.Up[p]
		s.Down[p] += o.Down[p]
		for r := range s.Closed[p] {
			s.Closed[p][r] += o.Closed[p][r]
		}
	}
}
