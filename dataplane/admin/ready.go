package admin

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// ready answers GET /healthz/ready.
func ready(src Source) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz/ready", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		waits := src.Pending()
		if len(waits) == 0 {
			fmt.Fprintln(w, "ready")
			return
		}
		slices.Sort(waits)
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "not ready, pending: %s\n", strings.Join(waits, ", "))
	})
	return only(mux)
}

// only gives unknown paths an empty 404.
func only(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern == "" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		h.ServeHTTP(w, r)
	})
}
