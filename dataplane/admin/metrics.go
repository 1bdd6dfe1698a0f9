package admin

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluice-mesh/sluice/dataplane/metric"
)

// A Sample is one figure that is not a loop's.
type Sample struct {
	Name, Help string
	Counter    bool // else a gauge
	Value      float64
}

// metrics serves the Prometheus text format, and OpenMetrics to who asks for it.
func metrics(n Node) http.Handler {
	h := promhttp.HandlerFor(registry(n), promhttp.HandlerOpts{EnableOpenMetrics: true})
	mux := http.NewServeMux()
	mux.Handle("/metrics", h)
	mux.Handle("/stats/prometheus", h)
	return known(mux)
}

func registry(n Node) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collector{n}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// collector asks at each scrape.
type collector struct{ Node }

// Describe names nothing: the figures of loops are missing at times.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect copies every loop's counters. When a loop did not answer, that is all
// that is said of the loops: a sum without it would look as if counters had gone
// back, and its share is not guessed.
func (c collector) Collect(out chan<- prometheus.Metric) {
	e := emitter{out}
	sets, _ := c.Traffic.Counters() // the error says what the missing sets say
	var sum metric.Set
	all := true
	for i, s := range sets {
		e.gauge(answered, bit(s != nil), label{"loop", number(i)})
		if s == nil {
			all = false
			continue
		}
		sum.Merge(s)
	}
	if all {
		for i := range metric.Counter(metric.NumCounters) {
			e.counter(unstable(i.Describe()), float64(sum.Count(i)))
		}
		for i := range metric.Gauge(metric.NumGauges) {
			e.gauge(unstable(i.Describe()), float64(sum.Level(i)))
		}
		e.flows(&sum)
	}
	for _, s := range c.State.Samples() {
		d := unstable(metric.Desc{Name: s.Name, Help: s.Help})
		if s.Counter {
			e.counter(d, s.Value)
		} else {
			e.gauge(d, s.Value)
		}
	}
	e.build(c.Build)
}
