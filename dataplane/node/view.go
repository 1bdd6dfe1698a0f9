package node

import (
	"time"

	"github.com/sluice-mesh/sluice/dataplane/admin"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/pods"
)

// askLimit is how long a loop may take to answer a scrape.
const askLimit = 2 * time.Second

// view is the node as the admin ports see it.
type view struct{ n *Node }

// Pending names what readiness waits for.
func (v view) Pending() []string {
	if v.n.stopping.Load() {
		return []string{"drain"}
	}
	if !v.n.pods.Ready() {
		return []string{pods.Gate}
	}
	return nil
}

// Loops copies the counters of every loop.
func (v view) Loops() ([]*metric.Set, error) { return loop.Snapshot(v.n.loops, askLimit) }

// Flows lists live flows.
func (v view) Flows(limit int) ([]flow.Info, error) { return v.n.env.List(limit, askLimit) }

// Quit starts the drain.
func (v view) Quit() { v.n.Quit() }

// Samples are the figures of the pods and of the build.
func (v view) Samples() []admin.Sample {
	s := v.n.pods.Stats()
	count := func(name, help string, n uint64) admin.Sample {
		return admin.Sample{Name: name, Help: help, Counter: true, Value: float64(n)}
	}
	gauge := func(name, help string, n int) admin.Sample {
		return admin.Sample{Name: name, Help: help, Value: float64(n)}
	}
	return []admin.Sample{
		{Name: "istio_build", Help: "The running build.", Labels: map[string]string{"component": "ztunnel", "tag": v.n.cfg.Version}, Value: 1},
		gauge("workload_manager_active_proxy_count", "Pods that are served (unstable).", s.Active),
		gauge("workload_manager_pending_proxy_count", "Pods that could not be started yet (unstable).", s.Pending),
		gauge("sluice_pods_draining", "Pods that are gone and have open flows.", s.Draining),
		count("workload_manager_proxies_started_total", "Pods brought up (unstable).", s.Started),
		count("workload_manager_proxies_stopped_total", "Pods told to drain (unstable).", s.Stopped),
		count("sluice_pods_start_errors_total", "Tries to start a pod that failed.", s.StartErrors),
		count("sluice_pods_refused_total", "Pods whose descriptor was no pod's network namespace.", s.Refused),
		count("sluice_pods_abandoned_total", "Pods that had not ended when the process drain was over.", s.Abandoned),
		count("sluice_zds_connects_total", "Connections to the agent.", s.Connects),
		count("sluice_zds_connect_errors_total", "Connects to the agent that failed.", s.ConnectErrors),
		count("sluice_zds_hello_errors_total", "Hellos that could not be sent.", s.HelloErrors),
		count("sluice_zds_read_errors_total", "Packets of the agent that could not be read.", s.ReadErrors),
		count("sluice_zds_answer_errors_total", "Answers to the agent that could not be sent.", s.AnswerErrors),
		count("sluice_zds_snapshots_total", "Snapshots that the agent completed.", s.Snapshots),
		count("sluice_zds_protocol_errors_total", "Requests that broke the protocol.", s.ProtocolErrors),
	}
}

// podState is one entry of workloadState.
type podState struct {
	State     string `json:"state"`
	Since     string `json:"since"`
	Namespace string `json:"netns"`
	LastError string `json:"lastError,omitempty"`
	Info      struct {
		Name           string `json:"name"`
		Namespace      string `json:"namespace"`
		ServiceAccount string `json:"serviceAccount"`
	} `json:"info"`
}

// Dump is the effective settings and the state of every pod.
func (v view) Dump() any {
	state := map[string]podState{}
	for _, s := range v.n.pods.Snapshot() {
		p := podState{State: s.State.String(), Since: s.Since.UTC().Format(time.RFC3339Nano), Namespace: s.Netns.String(), LastError: s.LastErr}
		p.Info.Name, p.Info.Namespace, p.Info.ServiceAccount = s.Pod.Name, s.Pod.Namespace, s.Pod.ServiceAccount
		if _, twice := state[s.Pod.UID]; twice && s.State == pods.Draining {
			continue // its successor says more
		}
		state[s.Pod.UID] = p
	}
	return map[string]any{
		"config":        v.n.cfg.describe(),
		"version":       v.n.cfg.Version,
		"workloadState": state,
	}
}

// Settings is the checked config as an operator reads it.
func (n *Node) Settings() map[string]any { return n.cfg.describe() }
