package h2

import "time"

// A Nuisance is something that costs us work and the peer next to nothing.
type Nuisance uint8

// The nuisances. Small DATA frames are none: an application that writes single bytes
// is an honest one. Nor is WINDOW_UPDATE: readers send one for every few kilobytes, and
// it costs no more than the bytes that it takes.
const (
	Pings        Nuisance = iota // PING and answers to PING
	SettingsSent                 // SETTINGS and its answers
	EarlyResets                  // RST_STREAM for a request that we have not answered yet
	Faults                       // stream errors of the peer
	Empties                      // DATA that carries nothing and does not end its stream
	Ignored                      // PRIORITY and unknown frames
	nuisances
)

// String names the nuisance as an operator reads it.
func (n Nuisance) String() string {
	switch n {
	case Pings:
		return "PING frames"
	case SettingsSent:
		return "SETTINGS frames"
	case EarlyResets:
		return "requests cancelled before an answer"
	case Faults:
		return "stream errors"
	case Empties:
		return "empty DATA frames"
	case Ignored:
		return "PRIORITY and unknown frames"
	}
	return "unknown nuisance"
}

// rate says how many may come at once, and how many each second for ever.
func (n Nuisance) rate() (burst, perSecond uint32) {
	switch n {
	case Pings:
		return 1024, 1000 // some measure the round trip with each window that they fill
	case SettingsSent:
		return 64, 10
	case EarlyResets:
		return 400, 200
	case Faults:
		return 400, 50
	case Empties:
		return 256, 32
	case Ignored:
		return 512, 128
	}
	return 1, 1
}

// A Flood limits nuisances of one connection. The zero value is ready.
type Flood struct {
	used [nuisances]uint32 // of the burst
	at   [nuisances]time.Duration
}

// Count counts one. An error means that there were more than anybody needs. Now is any
// clock that does not go back.
func (f *Flood) Count(n Nuisance, now time.Duration) error {
	burst, perSecond := n.rate()
	step := time.Second / time.Duration(perSecond)
	if back := (now - f.at[n]) / step; back > 0 {
		f.used[n] -= uint32(min(back, time.Duration(f.used[n])))
		f.at[n] += back * step
	}
	if f.used[n] >= burst {
		return connFault(EnhanceYourCalm, "too many "+n.String())
	}
	f.used[n]++
	return nil
}
