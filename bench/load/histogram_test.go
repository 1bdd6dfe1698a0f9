package load

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBucketsCoverAllValues(t *testing.T) {
	last := -1
	for _, v := range []uint64{0, 1, 127, 128, 255, 256, 257, 511, 512, 1000, 1 << 20, 1<<20 + 1<<13, 1 << 40, math.MaxInt64} {
		i := bucketOf(v)
		if i < last {
			t.Errorf("bucket of %d is %d, below that of a smaller value", v, i)
		}
		last = i
		if end := bucketEnd(i); end < v || float64(end-v) > float64(v)/128 {
			t.Errorf("bucket %d of %d ends at %d", i, v, end)
		}
		if i > 0 && bucketEnd(i-1) >= v {
			t.Errorf("%d lies in bucket %d, but the one before ends at %d", v, i, bucketEnd(i-1))
		}
	}
}

func TestQuantilesAgreeWithSorting(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var a, b, all Histogram
	values := make([]time.Duration, 50000)
	for i := range values {
		values[i] = time.Duration(math.Exp(rng.NormFloat64()*2 + 11))
		if i%3 == 0 {
			a.Record(values[i])
		} else {
			b.Record(values[i])
		}
	}
	all.Add(&a)
	all.Add(&b)
	slices.Sort(values)
	if all.Count() != uint64(len(values)) || all.Max() != values[len(values)-1] || all.min != values[0] {
		t.Errorf("count %d, max %v, min %v; want %d, %v, %v", all.Count(), all.Max(), all.min, len(values), values[len(values)-1], values[0])
	}
	for _, q := range []float64{0, 0.5, 0.9, 0.99, 0.999, 1} {
		want := values[max(int(math.Ceil(q*float64(len(values))))-1, 0)]
		got := all.Quantile(q)
		if got < want || float64(got) > float64(want)*1.008+1 {
			t.Errorf("quantile %v is %v; want %v and up to 0.8 %% more", q, got, want)
		}
	}
}

func TestEmptyHistogram(t *testing.T) {
	var h Histogram
	h.Add(new(Histogram))
	if got := h.Latency(); got != (Latency{}) {
		t.Errorf("latency of nothing is %+v", got)
	}
	h.Record(-time.Second)
	if h.Quantile(0.5) != 0 || h.Count() != 1 {
		t.Errorf("a negative value counts as %v, %d times; want 0, once", h.Quantile(0.5), h.Count())
	}
}

func BenchmarkRecord(b *testing.B) {
	var h Histogram
	b.ReportAllocs()
	d := time.Duration(1)
	for b.Loop() {
		d = d*7%1e9 + 1
		h.Record(d)
	}
}
