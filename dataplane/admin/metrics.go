package admin

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/metric"
)

// A Sample is one figure that is not a loop's.
type Sample struct {
	Name, Help string
	Counter    bool              // else a gauge
	Labels     map[string]string // nil for none
	Value      float64
}

// metrics serves the Prometheus text format.
func metrics(src Source) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collector{src}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	h := promhttp.HandlerFor(reg, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, EnableOpenMetrics: true})
	mux := http.NewServeMux()
	mux.Handle("/metrics", h)
	mux.Handle("/stats/prometheus", h)
	return only(mux)
}

// collector asks the loops at each scrape.
type collector struct{ src Source }

// Describe names nothing: what there is depends on what has happened.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect copies every loop's counters. A loop that did not answer is missing
// from the sums, and named.
func (c collector) Collect(out chan<- prometheus.Metric) {
	emit := func(kind prometheus.ValueType, d metric.Desc, v float64, names, values []string) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(d.Name, d.Help, names, nil), kind, v, values...)
	}
	sets, _ := c.src.Loops() // the error says what the missing sets say
	var sum metric.Set
	for i, s := range sets {
		answered := 0.0
		if s != nil {
			answered = 1
			sum.Merge(s)
		}
		emit(prometheus.GaugeValue, metric.Desc{Name: "sluice_loop_answered", Help: "1 if the loop answered this scrape in time; else its figures are missing from all others."},
			answered, []string{"loop"}, []string{strconv.Itoa(i)})
	}
	for i := range metric.Counter(metric.NumCounters) {
		emit(prometheus.CounterValue, i.Describe(), float64(sum.Count(i)), nil, nil)
	}
	for i := range metric.Gauge(metric.NumGauges) {
		emit(prometheus.GaugeValue, i.Describe(), float64(sum.Level(i)), nil, nil)
	}
	c.flows(&sum, emit)
	for _, s := range c.src.Samples() {
		kind := prometheus.GaugeValue
		if s.Counter {
			kind = prometheus.CounterValue
		}
		var names, values []string
		for k, v := range s.Labels {
			names, values = append(names, k), append(values, v)
		}
		emit(kind, metric.Desc{Name: s.Name, Help: s.Help}, s.Value, names, values)
	}
}

// flows tells flows by path and close reason, in our own names and, as far as
// labels are known yet, in those that dashboards of the mesh look for. There
// "received" is what came from the client, on both sides.
func (c collector) flows(sum *metric.Set, emit func(prometheus.ValueType, metric.Desc, float64, []string, []string)) {
	opened := metric.Desc{Name: "sluice_flows_opened_total", Help: "Flows accepted, by path."}
	closed := metric.Desc{Name: "sluice_flows_closed_total", Help: "Flows ended, by path and close reason."}
	for p := range flow.Paths {
		reporter := "source"
		if p == flow.Inbound {
			reporter = "destination"
		}
		var all, failed uint64
		for r := range flow.Reasons {
			n := sum.Closed[p][r]
			all += n
			if !r.Clean() {
				failed += n
			}
			if n > 0 {
				emit(prometheus.CounterValue, closed, float64(n), []string{"path", "reason"}, []string{p.String(), r.String()})
			}
		}
		emit(prometheus.CounterValue, opened, float64(sum.Opened[p]), []string{"path"}, []string{p.String()})
		for _, m := range []struct {
			name, help string
			n          uint64
		}{
			{"istio_tcp_connections_opened_total", "TCP connections opened.", sum.Opened[p]},
			{"istio_tcp_connections_closed_total", "TCP connections closed.", all},
			{"istio_tcp_connections_failed_total", "TCP connections that were cut or never came up (unstable).", failed},
		} {
			emit(prometheus.CounterValue, metric.Desc{Name: m.name, Help: m.help}, float64(m.n), []string{"reporter"}, []string{reporter})
		}
	}
}
