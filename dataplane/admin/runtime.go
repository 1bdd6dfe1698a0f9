package admin

import (
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/metric"
)

// memstats is what budget tests read. It asks no loop and is written by hand, so
// that a reading costs the same few dozen allocations each time, those of net/http
// included: read twice before the measurement, once after it, and take the
// difference of the first two readings off. The connection's are in it too, so
// use one for all readings, or a new one for each.
func memstats(w http.ResponseWriter, _ *http.Request) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b := make([]byte, 0, 512)
	for i, f := range []struct {
		name string
		v    uint64
	}{
		{"mallocs", m.Mallocs},
		{"frees", m.Frees},
		{"heap_alloc_bytes", m.HeapAlloc},
		{"heap_sys_bytes", m.HeapSys},
		{"total_alloc_bytes", m.TotalAlloc},
		{"stack_bytes", m.StackInuse},
		{"sys_bytes", m.Sys},
		{"gc_runs", uint64(m.NumGC)},
		{"gc_pause_ns", m.PauseTotalNs},
		{"goroutines", uint64(runtime.NumGoroutine())},
	} {
		if i == 0 {
			b = append(b, "{\n"...)
		} else {
			b = append(b, ",\n"...)
		}
		b = append(b, "  \""...)
		b = append(b, f.name...)
		b = append(b, "\": "...)
		b = strconv.AppendUint(b, f.v, 10)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(b, "\n}\n"...)) // the client is gone when it fails
}

// loopRow is one loop as JSON.
type loopRow struct {
	Loop     int                          `json:"loop"`
	Answered bool                         `json:"answered"`
	Counters map[string]uint64            `json:"counters,omitempty"`
	Gauges   map[string]int64             `json:"gauges,omitempty"`
	Opened   map[string]uint64            `json:"opened,omitempty"` // by path
	Closed   map[string]map[string]uint64 `json:"closed,omitempty"` // by path and close reason
}

// loops tells what each loop has counted; Prometheus gets the sums.
func loops(t Traffic) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		sets, _ := t.Counters() // answered says what the error says
		rows := make([]loopRow, 0, len(sets))
		for i, s := range sets {
			if s == nil {
				rows = append(rows, loopRow{Loop: i})
				continue
			}
			rows = append(rows, newLoopRow(i, s))
		}
		writeJSON(w, map[string]any{"time": time.Now().UTC().Format(time.RFC3339Nano), "loops": rows})
	}
}

func newLoopRow(i int, s *metric.Set) loopRow {
	row := loopRow{
		Loop: i, Answered: true, Counters: map[string]uint64{}, Gauges: map[string]int64{},
		Opened: map[string]uint64{}, Closed: map[string]map[string]uint64{},
	}
	for c := range metric.Counter(metric.NumCounters) {
		row.Counters[c.Describe().Name] = s.Count(c)
	}
	for g := range metric.Gauge(metric.NumGauges) {
		row.Gauges[g.Describe().Name] = s.Level(g)
	}
	for p := range flow.Paths {
		row.Opened[p.String()] = s.Opened[p]
		closed := map[string]uint64{}
		for r := range flow.Reasons {
			if n := s.Closed[p][r]; n > 0 {
				closed[r.String()] = n
			}
		}
		row.Closed[p.String()] = closed
	}
	return row
}
