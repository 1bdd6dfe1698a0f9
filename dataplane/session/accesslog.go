package session

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// logPeriod is how often records are fetched: a loop wakes nobody for them.
const logPeriod = 50 * time.Millisecond

// WriteLog writes the records of rings to log, one line each, until ctx ends and
// none is left. It is the only reader of the rings.
func WriteLog(ctx context.Context, rings []*Ring, log *slog.Logger) {
	if len(rings) == 0 {
		return
	}
	tick := time.NewTicker(logPeriod)
	defer tick.Stop()
	write := func(r *flow.Record) { writeRecord(log, r) }
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
		case <-tick.C:
		}
		for _, r := range rings {
			r.Take(write)
		}
	}
}

// writeRecord writes one line. The first fields are those that operators of the
// mesh know; bytes are from the application's point of view, so that what was
// sent outbound is what came from the client.
func writeRecord(log *slog.Logger, r *flow.Record) {
	level, msg := slog.LevelInfo, "connection complete"
	switch {
	case r.Verdict == flow.Deny:
		level, msg = slog.LevelWarn, "connection failed"
	case !r.Reason.Clean():
		level = slog.LevelError
	}
	sent, received := r.Counts.Up, r.Counts.Down
	names := [3]string{"src.workload", "src.namespace", "outbound"}
	if r.Path == flow.Inbound {
		sent, received = received, sent
		names = [3]string{"dst.workload", "dst.namespace", "inbound"}
	}
	attrs := make([]slog.Attr, 0, 20)
	attrs = append(attrs, slog.String("scope", "access"), slog.Any("src.addr", r.Tuple.Client))
	pod := func() {
		attrs = append(attrs, slog.String(names[0], r.Pod.Name), slog.String(names[1], r.Pod.Namespace))
	}
	if r.Path == flow.Outbound {
		pod()
	}
	attrs = append(attrs, slog.Any("dst.addr", r.Tuple.Dst))
	if r.Path == flow.Inbound {
		pod()
	}
	attrs = append(attrs,
		slog.String("direction", names[2]),
		slog.Uint64("bytes_sent", sent), slog.Uint64("bytes_recv", received),
		slog.String("duration", strconv.FormatInt(r.AgeNano/int64(time.Millisecond), 10)+"ms"))
	if !r.Reason.Clean() {
		text := r.Reason.String()
		if r.Errno != 0 {
			text += ": " + sys.Errno(r.Errno).Error()
		}
		attrs = append(attrs, slog.String("error", text))
	}
	attrs = append(attrs, slog.String("reason", r.Reason.String()), slog.Uint64("flow", r.ID))
	if r.Source.IsValid() {
		attrs = append(attrs, slog.Any("upstream.source", r.Source))
	}
	attrs = append(attrs,
		slog.Uint64("up_spliced", r.Counts.UpSpliced), slog.Uint64("down_spliced", r.Counts.DownSpliced),
		slog.Uint64("up_bytes", r.Counts.Up), slog.Uint64("down_bytes", r.Counts.Down))
	log.LogAttrs(context.Background(), level, msg, attrs...)
}
