package scenario

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/bench/load"
	"github.com/sluice-mesh/sluice/bench/report"
)

// values turns what was seen into figures.
func (m *measurement) values(o *observed) map[string]float64 {
	v := make(map[string]float64)
	spec, res := m.scenario.Spec, o.load
	per := func(n int64) float64 { return float64(n) / res.Seconds }
	used := o.end.Since(o.begin)
	measured := len(m.subject.PIDs()) > 0 && o.between > 0
	// The readings are a little late at either end: what counts is the processor
	// time per second between them.
	cpu := func(unit, user string, rate, scale float64) {
		if measured && rate > 0 {
			v[unit] = used.CPU.Seconds() / o.between.Seconds() / rate * scale
			v[user] = used.User.Seconds() / o.between.Seconds() / rate * scale
		}
	}
	switch spec.Kind {
	case load.Bulk:
		v[report.BytesPerSec] = per(res.Bytes)
		cpu(report.CPUPerGB, report.UserPerGB, per(res.Bytes), 1e9)
	case load.Exchange:
		v[report.ExchangesPerSec] = per(res.Exchanges)
		cpu(report.CPUPerKExchange, report.UserPerKExch, per(res.Exchanges), 1e3)
	case load.Churn:
		v[report.ConnsPerSec] = per(res.Exchanges)
		cpu(report.CPUPerKConn, report.UserPerKConn, per(res.Exchanges), 1e3)
	case load.Idle:
		if open := float64(res.Exchanges); measured && open > 0 {
			v[report.RSSPerConn] = float64(used.RSS) / open
			v[report.FDsPerConn] = float64(used.Descriptors) / open
		}
	}
	if spec.Kind == load.Exchange || spec.Kind == load.Churn {
		v[report.P50], v[report.P90], v[report.P99] = res.Latency.P50, res.Latency.P90, res.Latency.P99
		v[report.P999], v[report.Max] = res.Latency.P999, res.Latency.Max
	}
	if measured {
		v[report.RSS] = float64(o.end.RSS)
		v[report.FDs] = float64(o.end.Descriptors)
		v[report.Switches] = float64(used.Voluntary+used.Involuntary) / o.between.Seconds()
	}
	if o.before != nil && o.after != nil {
		v[report.GCs] = float64(o.after.GCs - o.before.GCs)
		if ops := m.operations(res); ops > 0 {
			v[report.MallocsPerOp] = float64(o.after.Mallocs-o.before.Mallocs) / ops
		}
	}
	n := int64(0)
	for _, k := range o.errors {
		n += k
	}
	v[report.Failures] = float64(n)
	return v
}

// operations is what a malloc is counted against: MiB for bulk.
func (m *measurement) operations(res *load.Result) float64 {
	if m.scenario.Spec.Kind == load.Bulk {
		return float64(res.Bytes) / (1 << 20)
	}
	return float64(res.Exchanges)
}

// runtimeCounts are what the subject's Go runtime says of itself.
type runtimeCounts struct {
	Mallocs uint64 `json:"mallocs"`
	GCs     uint64 `json:"gc_runs"`
}

// runtime asks the admin port; nil when there is none, or it does not answer: the
// figures are left out then.
func (m *measurement) runtime(ctx context.Context) *runtimeCounts {
	if m.subject.Admin == "" {
		return nil
	}
	c := &http.Client{Timeout: time.Second, Transport: &http.Transport{DialContext: m.dialAdmin, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m.subject.Admin+"/memstats", nil)
	if err != nil {
		return nil
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	counts := new(runtimeCounts)
	if resp.StatusCode != http.StatusOK || json.NewDecoder(resp.Body).Decode(counts) != nil {
		return nil
	}
	return counts
}

func (m *measurement) dialAdmin(ctx context.Context, _, addr string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	return m.subject.Node.Dial(ctx, to, lab.Socket{})
}
