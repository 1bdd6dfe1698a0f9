package admin

import (
	"fmt"
	"net/http"

	"github.com/sluice-mesh/sluice/dataplane/logs"
)

const loggingUsage = `usage: POST /logging                     (tells what is logged)
       POST /logging?level=<level>       (e.g. debug)
       POST /logging?level=<scope>=<level>,<level>
       POST /logging?reset               (back to what it was at the start)
A level list is ` + logs.LevelUsage + "."

// logging reports and changes which lines are written. Keys and answers are
// those of the mesh's own proxy.
func logging(levels *logs.Levels) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if levels == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if !posted(w, r, loggingUsage) {
			return
		}
		query := r.URL.Query()
		list := query.Get("level")
		if list != "" || query.Has("reset") {
			if err := levels.Merge(list, query.Has("reset")); err != nil {
				http.Error(w, fmt.Sprintf("Invalid level provided: %s\n%s", list, loggingUsage), http.StatusBadRequest)
				return
			}
		}
		fmt.Fprintf(w, "current log level is %s\n", levels)
	}
}
