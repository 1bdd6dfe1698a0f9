// Package scenario names what is measured, and runs it: load, path, capture mode
// and subject, by turns in random order, several rounds.
//
// Data enters as Options; samples are added to a report.Run as they are taken, so
// that a run which is cut short has lost nothing. Owns: one lab at a time, with
// the load and the subject inside it. Threads: Run belongs to one goroutine.
package scenario

import (
	"time"

	"github.com/sluice-mesh/sluice/bench/load"
)

// A Scenario is a named load.
type Scenario struct {
	Name string
	Note string
	Spec load.Spec
	// Quick ones are part of the short run.
	Quick bool
}

// All lists the scenarios.
func All() []Scenario {
	bulk := func(name, note string, conns int, down, quick bool) Scenario {
		return Scenario{name, note, load.Spec{Kind: load.Bulk, Conns: conns, Down: down, Sample: 8}, quick}
	}
	exchange := func(name, note string, conns, size int, rate float64, quick bool) Scenario {
		return Scenario{name, note, load.Spec{Kind: load.Exchange, Conns: conns, Request: size, Reply: size, Rate: rate}, quick}
	}
	churn := func(name, note string, conns int, by load.Closer, quick bool) Scenario {
		return Scenario{name, note, load.Spec{Kind: load.Churn, Conns: conns, Request: 100, Reply: 100, Close: by}, quick}
	}
	return []Scenario{
		bulk("bulk-1-up", "one stream, client to server", 1, false, true),
		bulk("bulk-1-down", "one stream, server to client", 1, true, false),
		bulk("bulk-8-up", "8 streams, client to server", 8, false, true),
		bulk("bulk-8-down", "8 streams, server to client", 8, true, false),
		exchange("rr-1-1", "1 byte each way on one connection", 1, 1, 0, false),
		exchange("rr-1-100", "100 bytes each way on one connection", 1, 100, 0, false),
		exchange("rr-1-16k", "16 KiB each way on one connection", 1, 16<<10, 0, false),
		exchange("rr-64-1", "1 byte each way on 64 connections", 64, 1, 0, false),
		exchange("rr-64-100", "100 bytes each way on 64 connections", 64, 100, 0, true),
		exchange("rr-64-16k", "16 KiB each way on 64 connections", 64, 16<<10, 0, false),
		exchange("rr-64-100-open", "100 bytes each way at 10 000 a second whatever the latency, on 64 connections", 64, 100, 10000, false),
		churn("churn-1-client", "connect, 100 bytes each way, client closes; one client", 1, load.ClientFIN, false),
		churn("churn-1-server", "the same, server closes", 1, load.ServerFIN, false),
		churn("churn-1-reset", "the same, client resets", 1, load.ClientReset, false),
		churn("churn-32-client", "connect, 100 bytes each way, client closes; 32 clients", 32, load.ClientFIN, true),
		churn("churn-32-server", "the same, server closes", 32, load.ServerFIN, false),
		churn("churn-32-reset", "the same, client resets", 32, load.ClientReset, false),
		{"idle-9000", "9000 connections that do nothing", load.Spec{Kind: load.Idle, Conns: 9000, Request: 1, Reply: 1}, false},
	}
}

// A Timing says how long each measurement takes.
type Timing struct {
	Warm   time.Duration
	Length time.Duration
	Trace  time.Duration // of the pass under strace
}
