package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/pprof"
	"runtime"

	"github.com/sluice-mesh/sluice/dataplane/metric"
)

// page is one address of the admin port.
type page struct {
	path, about string
	serve       http.HandlerFunc
}

// people serves the admin port.
func people(src Source) http.Handler {
	pages := []page{
		{"/flows", "live flows, as a table; ?format=json for JSON, ?limit=N for so many of each loop", flows(src)},
		{"/config_dump", "the effective settings and the state of every pod", dump(src)},
		{"/memstats", "counters of the Go runtime and of the loops, as JSON", memstats(src)},
		{"/quitquitquit", "POST drains and ends the process", quit(src)},
		{"/debug/pprof/", "profiles of the Go runtime", pprof.Index},
		{"/debug/pprof/profile", "CPU profile; ?seconds=N", pprof.Profile},
		{"/debug/pprof/trace", "execution trace; ?seconds=N", pprof.Trace},
		{"/debug/pprof/symbol", "symbols for profiles", pprof.Symbol},
		{"/debug/pprof/cmdline", "the command line", pprof.Cmdline},
	}
	mux := http.NewServeMux()
	for _, p := range pages {
		mux.HandleFunc(p.path, p.serve)
	}
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintln(w, "<!doctype html><title>sluice</title><table>")
		for _, p := range pages {
			fmt.Fprintf(w, "<tr><td><a href=%q>%s</a><td>%s\n", p.path, p.path, p.about)
		}
		fmt.Fprintln(w, "</table>")
	})
	return only(mux)
}

func dump(src Source) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, src.Dump()) }
}

// writeJSON writes v, or the error instead of it.
func writeJSON(w http.ResponseWriter, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // the client is gone when it fails
}

func quit(src Source) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		fmt.Fprintln(w, "shutdown now")
		src.Quit()
	}
}

// memstats is what budget tests read: one request costs about 100 allocations
// of its own, which two readings in a row show.
func memstats(src Source) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		sets, err := src.Loops()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		var sum metric.Set
		for _, s := range sets {
			sum.Merge(s)
		}
		out := map[string]uint64{
			"mallocs": m.Mallocs, "frees": m.Frees, "heap_alloc_bytes": m.HeapAlloc, "heap_sys_bytes": m.HeapSys,
			"total_alloc_bytes": m.TotalAlloc, "gc_runs": uint64(m.NumGC), "gc_pause_ns": m.PauseTotalNs,
			"stack_bytes": m.StackInuse, "goroutines": uint64(runtime.NumGoroutine()),
		}
		for c := range metric.Counter(metric.NumCounters) {
			out[c.Describe().Name] = sum.Count(c)
		}
		writeJSON(w, out)
	}
}
