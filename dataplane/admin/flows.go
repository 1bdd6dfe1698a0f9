package admin

import (
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/flow"
)

// flowRow is a live flow as JSON.
type flowRow struct {
	ID        uint64  `json:"id"`
	Pod       string  `json:"pod"`
	Path      string  `json:"path"`
	Client    string  `json:"client"`
	Dst       string  `json:"destination"`
	Upstream  string  `json:"upstream"`
	Source    string  `json:"source,omitempty"`
	State     string  `json:"state"`
	Loop      int     `json:"loop"`
	AgeSecs   float64 `json:"age_seconds"`
	Up        uint64  `json:"up_bytes"`
	Down      uint64  `json:"down_bytes"`
	UpBy      string  `json:"up_engine"`
	DownBy    string  `json:"down_engine"`
	UpEnded   bool    `json:"up_ended"`
	DownEnded bool    `json:"down_ended"`
	UpHeld    int     `json:"up_held_bytes"`
	DownHeld  int     `json:"down_held_bytes"`
}

func row(i flow.Info) flowRow {
	source := ""
	if i.Source != (netip.AddrPort{}) {
		source = i.Source.String()
	}
	return flowRow{
		ID: i.ID, Pod: i.Pod.Namespace + "/" + i.Pod.Name, Path: i.Path.String(),
		Client: i.Tuple.Client.String(), Dst: i.Tuple.Dst.String(), Upstream: i.Upstream.String(), Source: source,
		State: i.State, Loop: i.Loop, AgeSecs: i.Age.Seconds(), Up: i.Counts.Up, Down: i.Counts.Down,
		UpBy: engine(i.UpSplicing), DownBy: engine(i.DownSplicing), UpEnded: i.UpEnded, DownEnded: i.DownEnded,
		UpHeld: i.UpHeld + i.UpPipe, DownHeld: i.DownHeld + i.DownPipe,
	}
}

func engine(splicing bool) string {
	if splicing {
		return "splice"
	}
	return "copy"
}

// flows lists live flows.
func flows(src Source) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		limit := 1000
		if text := r.FormValue("limit"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > 1e6 {
				http.Error(w, fmt.Sprintf("limit is %q; want 1 to 1000000", text), http.StatusBadRequest)
				return
			}
			limit = n
		}
		all, err := src.Flows(limit)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		rows := make([]flowRow, 0, len(all))
		for _, i := range all {
			rows = append(rows, row(i))
		}
		if r.FormValue("format") == "json" {
			writeJSON(w, rows)
			return
		}
		t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
		fmt.Fprintln(t, "POD\tPATH\tCLIENT\tDESTINATION\tSOURCE\tSTATE\tLOOP\tAGE\tUP\tDOWN\tENGINES\tENDED\tHELD")
		for _, f := range rows {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%v\t%d\t%d\t%s/%s\t%v/%v\t%d/%d\n", f.Pod, f.Path, f.Client, f.Dst, f.Source,
				f.State, f.Loop, time.Duration(f.AgeSecs*1e9).Round(time.Millisecond), f.Up, f.Down, f.UpBy, f.DownBy,
				f.UpEnded, f.DownEnded, f.UpHeld, f.DownHeld)
		}
		_ = t.Flush() // the client is gone when it fails
	}
}
