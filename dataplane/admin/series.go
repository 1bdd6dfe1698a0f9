package admin

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/metric"
)

// answered says which loops the other figures are of.
var answered = unstable(metric.Desc{Name: "sluice_loop_answered", Help: "1 if the loop answered this scrape in time; else the sums over all loops are left out of it."})

// unstable marks what may be renamed, as the mesh does: its core metrics are the
// ones whose help text does not say so.
func unstable(d metric.Desc) metric.Desc {
	d.Help = strings.TrimSuffix(d.Help, ".") + " (unstable)."
	return d
}

// label is a name and a value, which comes from a closed set.
type label struct{ name, value string }

func number(i int) string { return strconv.Itoa(i) }

func bit(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// emitter hands series to a scrape.
type emitter struct{ out chan<- prometheus.Metric }

func (e emitter) counter(d metric.Desc, v float64, labels ...label) {
	e.emit(prometheus.CounterValue, d, v, labels)
}

func (e emitter) gauge(d metric.Desc, v float64, labels ...label) {
	e.emit(prometheus.GaugeValue, d, v, labels)
}

func (e emitter) emit(kind prometheus.ValueType, d metric.Desc, v float64, labels []label) {
	var names, values []string
	for _, l := range labels {
		names, values = append(names, l.name), append(values, l.value)
	}
	e.out <- prometheus.MustNewConstMetric(prometheus.NewDesc(d.Name, d.Help, names, nil), kind, v, values...)
}

// The traffic metrics of the mesh. "Received" is what came from the client, on
// both sides.
func istio() (opened, closed, failed, received, sent, sockets metric.Desc) {
	return metric.Desc{Name: "istio_tcp_connections_opened_total", Help: "TCP connections opened."},
		metric.Desc{Name: "istio_tcp_connections_closed_total", Help: "TCP connections closed."},
		unstable(metric.Desc{Name: "istio_tcp_connections_failed_total", Help: "TCP connections that were cut or never came up."}),
		metric.Desc{Name: "istio_tcp_received_bytes_total", Help: "Bytes received from clients."},
		metric.Desc{Name: "istio_tcp_sent_bytes_total", Help: "Bytes sent to clients."},
		unstable(metric.Desc{Name: "istio_tcp_sockets_open", Help: "Accepted connections that are held."})
}

// flows tells flows by path and close reason, in our own names and in those that
// dashboards of the mesh look for, with the labels that can be known so far.
func (e emitter) flows(sum *metric.Set) {
	openedFlows := unstable(metric.Desc{Name: "sluice_flows_opened_total", Help: "Flows accepted, by path."})
	closedFlows := unstable(metric.Desc{Name: "sluice_flows_closed_total", Help: "Flows ended, by path and close reason."})
	opened, closed, failed, received, sent, sockets := istio()
	var open [2]float64 // by reporter
	for p := range flow.Paths {
		path := label{"path", p.String()}
		e.counter(openedFlows, float64(sum.Opened[p]), path)
		var all, refused uint64
		flags := map[string]uint64{flagNone: 0, flagConnect: 0}
		for r := flow.CloseEOF; r < flow.Reasons; r++ {
			n := sum.Closed[p][r]
			e.counter(closedFlows, float64(n), path, label{"reason", r.String()})
			all += n
			if r == flow.CloseStraight { // no connection to the mesh: refused before anything was known of it
				refused += n
			} else {
				flags[flag(r)] += n
			}
		}
		traffic := []label{{"reporter", "source"}, {"request_protocol", "tcp"}, {"response_flags", flagNone}, {"connection_security_policy", "unknown"}}
		reporter := &open[0]
		if p.Inbound() {
			traffic[0].value, reporter = "destination", &open[1]
		}
		if p.Tunnelled() {
			traffic[3].value = "mutual_tls"
		}
		e.counter(opened, float64(sum.Opened[p]-refused), traffic...)
		e.counter(received, float64(sum.Up[p]), traffic...)
		e.counter(sent, float64(sum.Down[p]), traffic...)
		// Loops are asked one after the other: one may tell of an end whose
		// beginning another had not seen yet.
		*reporter += float64(sum.Opened[p]) - float64(all)
		for _, f := range []string{flagNone, flagConnect} {
			traffic[2].value = f
			e.counter(closed, float64(flags[f]), traffic...)
			if f != flagNone {
				e.counter(failed, float64(flags[f]), traffic...)
			}
		}
	}
	e.gauge(sockets, max(0, open[0]), label{"reporter", "source"})
	e.gauge(sockets, max(0, open[1]), label{"reporter", "destination"})
}

// The values of response_flags that this proxy has so far.
const (
	flagNone    = "-"
	flagConnect = "CONNECT"
)

// flag is the value of response_flags. Who resets or goes away has not failed,
// and neither has what was cut by a drain.
func flag(r flow.CloseReason) string {
	switch r {
	case flow.CloseEOF, flow.CloseClientReset, flow.CloseServerReset, flow.CloseClientGone, flow.CloseDrain, flow.ClosePodDrain:
		return flagNone
	case flow.CloseRefused, flow.CloseUnreachable, flow.CloseConnect, flow.CloseSourcePorts, flow.CloseStraight,
		flow.CloseNoSource, flow.CloseTimeout, flow.CloseIdle, flow.CloseHalf, flow.CloseLimit, flow.ClosePanic,
		flow.CloseHandshake, flow.CloseIdentity, flow.CloseStatus, flow.CloseProtocol,
		flow.CloseInternal, flow.Open, flow.Reasons:
	}
	return flagConnect
}

// build tells what is running.
func (e emitter) build(b Build) {
	e.gauge(metric.Desc{Name: "istio_build", Help: "The release of the mesh that this proxy was told to be a part of."}, 1,
		label{"component", "ztunnel"}, label{"tag", b.Istio})
	e.gauge(unstable(metric.Desc{Name: "sluice_build_info", Help: "The running build."}), 1,
		label{"version", b.Version}, label{"revision", b.Revision}, label{"goversion", b.Go})
}
