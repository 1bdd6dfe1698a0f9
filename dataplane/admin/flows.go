package admin

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/flow"
)

// How many flows of one loop are listed: a loop does nothing else while it lists
// them, about 0.2 µs each.
const (
	flowsListed = 1000
	flowsMost   = 20000
)

// flowRow is a live flow as JSON.
type flowRow struct {
	ID        uint64  `json:"id"`
	Pod       string  `json:"pod"`
	UID       string  `json:"pod_uid"`
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
	UpSpliced uint64  `json:"up_spliced_bytes"`
	DnSpliced uint64  `json:"down_spliced_bytes"`
	UpBy      string  `json:"up_engine"`
	DownBy    string  `json:"down_engine"`
	UpEnded   bool    `json:"up_ended"`
	DownEnded bool    `json:"down_ended"`
	UpHeld    int     `json:"up_held_bytes"`
	DownHeld  int     `json:"down_held_bytes"`
}

func newFlowRow(i flow.Info) flowRow {
	return flowRow{
		ID: i.ID, Pod: i.Pod.Namespace + "/" + i.Pod.Name, UID: i.Pod.UID, Path: i.Path.String(),
		Client: i.Tuple.Client.String(), Dst: i.Tuple.Dst.String(), Upstream: i.Upstream.String(), Source: known0(i.Source),
		State: i.State, Loop: i.Loop, AgeSecs: i.Age.Seconds(),
		Up: i.Counts.Up, Down: i.Counts.Down, UpSpliced: i.Counts.UpSpliced, DnSpliced: i.Counts.DownSpliced,
		UpBy: engine(i.UpSplicing), DownBy: engine(i.DownSplicing), UpEnded: i.UpEnded, DownEnded: i.DownEnded,
		UpHeld: i.UpHeld + i.UpPipe, DownHeld: i.DownHeld + i.DownPipe,
	}
}

// known0 is an address as far as it was chosen: without a port that was left to
// the kernel, and nothing when all was.
func known0(a netip.AddrPort) string {
	switch {
	case !a.IsValid():
		return ""
	case a.Port() == 0:
		return a.Addr().String()
	}
	return a.String()
}

func engine(splicing bool) string {
	if splicing {
		return "splice"
	}
	return "copy"
}

// flows lists live flows.
func flows(t Traffic) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		limit := flowsListed
		if text := r.FormValue("limit"); text != "" {
			n, err := strconv.Atoi(text)
			if err != nil || n < 1 || n > flowsMost {
				http.Error(w, fmt.Sprintf("limit is %q; want 1 to %d", text, flowsMost), http.StatusBadRequest)
				return
			}
			limit = n
		}
		all, err := t.Flows(limit)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		rows := make([]flowRow, 0, len(all))
		for _, i := range all {
			rows = append(rows, newFlowRow(i))
		}
		if r.FormValue("format") == "json" || strings.Contains(r.Header.Get("Accept"), "application/json") {
			writeJSON(w, map[string]any{"open": t.Open(), "flows": rows})
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		writeFlows(w, rows, t.Open())
	}
}

// writeFlows writes the table.
func writeFlows(w io.Writer, rows []flowRow, open int) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "POD\tPATH\tCLIENT\tDESTINATION\tSOURCE\tSTATE\tLOOP\tAGE\tUP\tDOWN\tENGINES\tENDED\tHELD")
	for _, f := range rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%v\t%d\t%d\t%s/%s\t%s/%s\t%d/%d\n", f.Pod, f.Path, f.Client, f.Dst, cmp.Or(f.Source, "-"),
			f.State, f.Loop, time.Duration(f.AgeSecs*1e9).Round(time.Millisecond), f.Up, f.Down, f.UpBy, f.DownBy,
			ended(f.UpEnded), ended(f.DownEnded), f.UpHeld, f.DownHeld)
	}
	_ = t.Flush() // the client is gone when it fails
	fmt.Fprintf(w, "%d of %d flows\n", len(rows), open)
}

func ended(is bool) string {
	if is {
		return "fin"
	}
	return "-"
}
