package metric_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/metric"
)

// Everything that is counted is scraped under a name of its own; a counter's
// name ends in _total and a gauge's does not.
func TestDescriptions(t *testing.T) {
	name := regexp.MustCompile(`^sluice_[a-z]+(_[a-z]+)*$`)
	seen := map[string]bool{}
	check := func(d metric.Desc, counter bool) {
		if !name.MatchString(d.Name) || seen[d.Name] || strings.HasSuffix(d.Name, "_total") != counter {
			t.Errorf("name %q (seen before: %v, counter: %v)", d.Name, seen[d.Name], counter)
		}
		if !strings.HasSuffix(d.Help, ".") {
			t.Errorf("%s: help text %q is no sentence", d.Name, d.Help)
		}
		seen[d.Name] = true
	}
	for c := range metric.NumCounters {
		check(metric.Counter(c).Describe(), true)
	}
	for g := range metric.NumGauges {
		check(metric.Gauge(g).Describe(), false)
	}
}

func TestMerge(t *testing.T) {
	var a, b metric.Set
	for i, s := range []*metric.Set{&a, &b} {
		n := uint64(i + 1)
		s.Inc(metric.Accepted)
		s.Add(metric.UpBytes, n)
		s.Move(metric.OpenFlows, 10*int64(n))
		s.Move(metric.OpenFlows, -int64(n))
		s.Opened[1] += n
		s.Up[1] += 3 * n
		s.Down[0] += 5 * n
		s.Closed[1][metric.MaxReasons-1] += n
	}
	a.Merge(&b)
	if a.Count(metric.Accepted) != 2 || a.Count(metric.UpBytes) != 3 || a.Level(metric.OpenFlows) != 27 ||
		a.Opened[1] != 3 || a.Up[1] != 9 || a.Down[0] != 15 || a.Closed[1][metric.MaxReasons-1] != 3 {
		t.Errorf("sum is %+v", a)
	}
	if b.Count(metric.UpBytes) != 2 {
		t.Error("merging changed what was merged")
	}
}
