package admin

import (
	"net/http"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/flow"
)

// A Build says what is running.
type Build struct {
	Version  string // ours
	Revision string // of the source
	Status   string // Clean, or Modified
	Istio    string // the release of the mesh that this build was told to be a part of
	Go       string // the toolchain
}

// json is the build with the keys that the mesh's tools know.
func (b Build) json() map[string]string {
	return map[string]string{
		"version": b.Version, "gitRevision": b.Revision, "buildStatus": b.Status, "istioVersion": b.Istio,
		"rustVersion": "n/a", "goVersion": b.Go, "buildProfile": "release", "cryptoProvider": "go",
	}
}

// podRow is one entry of workloadState. Keys are in order, as in the mesh's dump.
type podRow struct {
	Connections *connections `json:"connections,omitempty"`
	Info        podInfo      `json:"info"`
	LastError   string       `json:"lastError,omitempty"`
	Netns       string       `json:"netns"`
	Since       string       `json:"since"`
	State       string       `json:"state"`
}

type podInfo struct {
	Name           string `json:"name"`
	Namespace      string `json:"namespace"`
	ServiceAccount string `json:"serviceAccount"`
}

type connections struct {
	Inbound  []connection `json:"inbound"`
	Outbound []connection `json:"outbound"`
}

type connection struct {
	ActualDst   string  `json:"actualDst"`
	OriginalDst *string `json:"originalDst"` // null for inbound, where it could name a host only
	Protocol    string  `json:"protocol"`
	Src         string  `json:"src"`
}

// configDump tells the effective settings and all state, with the keys that the
// mesh's tools know. What this node has no knowledge of yet is there and empty.
func configDump(n Node) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		live, err := n.Traffic.Flows(flowsMost)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		none := []any{}
		writeJSON(w, map[string]any{
			"config":         n.Config,
			"version":        n.Build.json(),
			"workloadState":  workloadState(n.State.Pods(), live),
			"workloads":      none,
			"services":       none,
			"policies":       none,
			"certificates":   none,
			"stagedServices": map[string]any{},
		})
	}
}

// workloadState is the pods by uid. A draining pod is left out when its uid has
// come again.
func workloadState(pods []Pod, live []flow.Info) map[string]*podRow {
	state := map[string]*podRow{}
	for _, p := range pods {
		if _, twice := state[p.UID]; twice && p.State == "Draining" {
			continue
		}
		row := &podRow{
			State: p.State, Since: p.Since.UTC().Format(time.RFC3339Nano), Netns: p.Netns, LastError: p.LastErr,
			Info: podInfo{p.Name, p.Namespace, p.ServiceAccount},
		}
		if p.State != "Pending" {
			row.Connections = &connections{Inbound: []connection{}, Outbound: []connection{}}
		}
		state[p.UID] = row
	}
	for _, f := range live {
		row := state[f.Pod.UID]
		if row == nil || row.Connections == nil {
			continue // the pod came or went between the two questions
		}
		c := connection{Src: f.Tuple.Client.String(), ActualDst: f.Upstream.String(), Protocol: "TCP"}
		if f.Path.Inbound() {
			row.Connections.Inbound = append(row.Connections.Inbound, c)
		} else {
			c.OriginalDst = new(f.Tuple.Dst.String())
			row.Connections.Outbound = append(row.Connections.Outbound, c)
		}
	}
	return state
}
