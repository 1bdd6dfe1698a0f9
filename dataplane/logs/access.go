package logs

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/flow"
)

// period is how often records are fetched: a loop wakes nobody for them.
const period = 50 * time.Millisecond

// batchBytes is how much is written at once.
const batchBytes = 64 << 10

// A Ring holds the records of flows that have ended. Take calls write with each,
// in order.
type Ring interface {
	Take(write func(*flow.Record))
}

// Drain writes the records of rings, one line each, until ctx ends and none is
// left. It is the only reader of the rings.
func (o *Output) Drain(ctx context.Context, rings []Ring) {
	if len(rings) == 0 {
		return
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	w := accessWriter{out: o, line: line{format: o.format}}
	take := w.record
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
		case <-tick.C:
		}
		for _, r := range rings {
			r.Take(take)
		}
		w.flush()
	}
}

// accessWriter gathers lines of flows. They don't go through slog: a record is a
// value of known shape, and boxing its fields would allocate for each.
type accessWriter struct {
	out  *Output
	line line
}

// record adds the line of one flow.
func (w *accessWriter) record(r *flow.Record) {
	level, message := slog.LevelInfo, "connection complete"
	fault := faultText(r.Reason, r.Errno)
	if r.Detail != "" {
		fault = r.Detail
	}
	refused := r.Verdict == flow.Deny // before anything was known of it
	switch {
	case refused:
		level, message = slog.LevelWarn, "connection failed"
	case fault != "":
		level = slog.LevelError
	}
	if !w.out.Levels.Enabled(ScopeAccess, level) {
		return
	}
	l := &w.line
	l.begin(time.Unix(0, r.EndNano), levelName(level), ScopeAccess, message)
	w.known(r, refused)
	if fault != "" {
		l.text(keyError, fault)
	}
	l.text(keyPath, r.Path.String())
	l.text(keyVerdict, r.Verdict.String())
	l.text(keyReason, r.Reason.String())
	if r.Source.IsValid() {
		l.addr(keySource, r.Source)
	}
	l.number(keyUpBytes, r.Counts.Up)
	l.number(keyDownBytes, r.Counts.Down)
	l.number(keyUpSpliced, r.Counts.UpSpliced)
	l.number(keyDownSpliced, r.Counts.DownSpliced)
	l.number(keyFlow, r.ID)
	l.end()
	if len(l.buf) >= batchBytes {
		w.flush()
	}
}

// known adds the fields of the mesh's own proxy, but for the error.
func (w *accessWriter) known(r *flow.Record, refused bool) {
	l := &w.line
	direction, sent, received := "outbound", r.Counts.Up, r.Counts.Down
	inbound := r.Path.Inbound()
	if inbound {
		direction, sent, received = "inbound", r.Counts.Down, r.Counts.Up
	}
	l.addr(keySrcAddr, r.Tuple.Client)
	if !inbound && r.Pod != nil && !refused {
		l.text(keySrcWorkload, r.Pod.Name)
		l.text(keySrcNamespace, r.Pod.Namespace)
	}
	src, there := r.Us, r.Them
	if inbound {
		src, there = r.Them, r.Us
	}
	if !src.IsZero() {
		l.text(keySrcIdentity, src.String())
	}
	dst := r.Tuple.Dst
	if !inbound && r.Upstream.IsValid() {
		dst = r.Upstream
	}
	if inbound && r.Authority.IsValid() {
		dst = netip.AddrPortFrom(r.Authority.Addr(), flow.PortHBONE)
	}
	l.addr(keyDstAddr, dst)
	if r.Authority.IsValid() {
		l.addr(keyDstHBONE, r.Authority)
	}
	if inbound && r.Pod != nil && !refused {
		l.text(keyDstWorkload, r.Pod.Name)
		l.text(keyDstNamespace, r.Pod.Namespace)
	}
	if !there.IsZero() {
		l.text(keyDstIdentity, there.String())
	}
	l.text(keyDirection, direction)
	if !refused {
		l.number(keyBytesSent, sent)
		l.number(keyBytesRecv, received)
		l.milliseconds(keyDuration, time.Duration(r.AgeNano))
	}
}

// flush writes what was gathered. A failure is counted.
func (w *accessWriter) flush() {
	if len(w.line.buf) > 0 {
		_ = w.out.write(w.line.buf)
		w.line.buf = w.line.buf[:0]
	}
}
