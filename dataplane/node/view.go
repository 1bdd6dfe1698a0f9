package node

import (
	"maps"
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

// view is what admin asks.
func (n *Node) view() admin.Node {
	shown := map[string]any{}
	maps.Copy(shown, n.cfg.Shown)
	shown["congestion"] = n.cfg.Session.Congestion // as it was found
	v := admin.Node{Traffic: view{n}, State: view{n}, Quit: n.Quit, Config: shown, Build: n.cfg.Build}
	if n.cfg.Flows != nil {
		v.Levels = n.cfg.Flows.Levels
	}
	return v
}

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

// Counters copies what every loop counts.
func (v view) Counters() ([]*metric.Set, error) { return loop.Snapshot(v.n.loops, askLimit) }

// Flows lists live flows.
func (v view) Flows(limit int) ([]flow.Info, error) { return v.n.env.List(limit, askLimit) }

// Open is how many flows live on the loops.
func (v view) Open() int {
	n := 0
	for _, l := range v.n.loops {
		n += l.Flows()
	}
	return n
}

// Pods lists the pods; a draining one behind its successor.
func (v view) Pods() []admin.Pod {
	var all []admin.Pod
	for _, s := range v.n.pods.Snapshot() {
		all = append(all, admin.Pod{
			Pod: flow.Pod(s.Pod), State: s.State.String(), Since: s.Since, Netns: s.Netns.String(), LastErr: s.LastErr,
		})
	}
	return all
}

// Samples are the figures of the pods and of the log.
func (v view) Samples() []admin.Sample {
	s := v.n.pods.Stats()
	var all []admin.Sample
	count := func(name, help string, n uint64) {
		all = append(all, admin.Sample{Name: name, Help: help, Counter: true, Value: float64(n)})
	}
	gauge := func(name, help string, n int) {
		all = append(all, admin.Sample{Name: name, Help: help, Value: float64(n)})
	}
	gauge("workload_manager_active_proxy_count", "Pods that are served.", s.Active)
	gauge("workload_manager_pending_proxy_count", "Pods that could not be started yet.", s.Pending)
	gauge("sluice_pods_draining", "Pods that are gone and have open flows.", s.Draining)
	count("workload_manager_proxies_started_total", "Pods brought up.", s.Started)
	count("workload_manager_proxies_stopped_total", "Pods told to drain.", s.Stopped)
	count("sluice_pods_start_errors_total", "Tries to start a pod that failed.", s.StartErrors)
	count("sluice_pods_refused_total", "Pods whose descriptor was no pod's network namespace.", s.Refused)
	count("sluice_pods_abandoned_total", "Pods that had not ended when the process drain was over.", s.Abandoned)
	count("sluice_zds_connects_total", "Connections to the agent.", s.Connects)
	count("sluice_zds_connect_errors_total", "Connects to the agent that failed.", s.ConnectErrors)
	count("sluice_zds_hello_errors_total", "Hellos that could not be sent.", s.HelloErrors)
	count("sluice_zds_read_errors_total", "Packets of the agent that could not be read.", s.ReadErrors)
	count("sluice_zds_answer_errors_total", "Answers to the agent that could not be sent.", s.AnswerErrors)
	count("sluice_zds_snapshots_total", "Snapshots that the agent completed.", s.Snapshots)
	count("sluice_zds_protocol_errors_total", "Requests that broke the protocol.", s.ProtocolErrors)
	if v.n.cfg.Flows != nil {
		count("sluice_log_write_errors_total", "Writes of log lines that failed; the lines are lost.", v.n.cfg.Flows.Failed())
	}
	return all
}
