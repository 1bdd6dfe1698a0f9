package admin

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/pprof"
)

// A page is one address of the admin port.
type page struct {
	path, about string
	serve       http.HandlerFunc
}

func pages(n Node) []page {
	return []page{
		{"/flows", "live flows, as a table; ?format=json for JSON, ?limit=N for at most so many of each loop", flows(n.Traffic)},
		{"/config_dump", "the effective settings, the pods and their connections, as JSON", configDump(n)},
		{"/loops", "what each loop has counted, as JSON", loops(n.Traffic)},
		{"/memstats", "figures of the Go runtime, as JSON", memstats},
		{"/logging", "POST ?level=LIST sets what is logged, POST ?reset goes back to what it was at the start; POST alone tells", logging(n.Levels)},
		{"/quitquitquit", "POST drains and ends the process", quit(n.Quit)},
		{"/debug/pprof/", "profiles of the Go runtime", pprof.Index},
		{"/debug/pprof/profile", "CPU profile; ?seconds=N", pprof.Profile},
		{"/debug/pprof/trace", "execution trace; ?seconds=N", pprof.Trace},
		{"/debug/pprof/symbol", "symbols for profiles", pprof.Symbol},
		{"/debug/pprof/cmdline", "the command line", pprof.Cmdline},
	}
}

// people serves the admin port.
func people(n Node) http.Handler {
	all := pages(n)
	mux := http.NewServeMux()
	for _, p := range all {
		mux.HandleFunc(p.path, p.serve)
	}
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintln(w, "<!doctype html><title>sluice</title><h1>sluice</h1><table>")
		for _, p := range all {
			fmt.Fprintf(w, "<tr><td><a href=\"%s\">%s</a><td>%s\n", p.path, p.path, html.EscapeString(p.about))
		}
		fmt.Fprintln(w, "</table>")
	})
	return known(mux)
}

// known gives unknown paths an empty 404.
func known(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern == "" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// writeJSON writes v, or the error instead of it. Keys of maps are sorted.
func writeJSON(w http.ResponseWriter, v any) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // the client is gone when it fails
}

// posted answers 405 with help to anything but a POST.
func posted(w http.ResponseWriter, r *http.Request, help string) bool {
	if r.Method == http.MethodPost {
		return true
	}
	w.Header().Set("Allow", http.MethodPost)
	http.Error(w, help, http.StatusMethodNotAllowed)
	return false
}

func quit(drain func()) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if posted(w, r, "POST to /quitquitquit ends the process") {
			fmt.Fprintln(w, "shutdown now")
			drain()
		}
	}
}
