package admin

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// ready answers GET /healthz/ready.
func ready(state State) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz/ready", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		waits := state.Pending()
		if len(waits) == 0 {
			fmt.Fprintln(w, "ready")
			return
		}
		slices.Sort(waits)
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "not ready, pending: %s\n", strings.Join(waits, ", "))
	})
	return known(mux)
}
