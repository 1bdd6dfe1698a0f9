package load

import (
	"math"
	"math/bits"
	"time"
)

// subBits splits each power of two into 128 buckets: a value read back is at
// most 0.8 % above the one that was recorded.
const subBits = 7

// A Histogram counts durations in buckets whose width grows with the value, as
// HDR histograms do. It has no upper limit, never drops a value and never
// allocates after the first one of its size. The zero value is empty.
type Histogram struct {
	buckets []uint64
	count   uint64
	sum     time.Duration
	min     time.Duration
	max     time.Duration
}

// Record counts d; a negative one as 0.
func (h *Histogram) Record(d time.Duration) {
	d = max(d, 0)
	i := bucketOf(uint64(d))
	if i >= len(h.buckets) {
		h.buckets = append(h.buckets, make([]uint64, i+1-len(h.buckets)+1<<subBits)...)
	}
	h.buckets[i]++
	if h.count == 0 || d < h.min {
		h.min = d
	}
	h.max = max(h.max, d)
	h.count++
	h.sum += d
}

// Add counts everything that o counted.
func (h *Histogram) Add(o *Histogram) {
	if o.count == 0 {
		return
	}
	if len(o.buckets) > len(h.buckets) {
		h.buckets = append(h.buckets, make([]uint64, len(o.buckets)-len(h.buckets))...)
	}
	for i, n := range o.buckets {
		h.buckets[i] += n
	}
	if h.count == 0 || o.min < h.min {
		h.min = o.min
	}
	h.max = max(h.max, o.max)
	h.count += o.count
	h.sum += o.sum
}

// Count is how many values were recorded.
func (h *Histogram) Count() uint64 { return h.count }

// Max is the largest value, exactly.
func (h *Histogram) Max() time.Duration { return h.max }

// Mean is the exact mean; 0 when nothing was recorded.
func (h *Histogram) Mean() time.Duration {
	if h.count == 0 {
		return 0
	}
	return h.sum / time.Duration(h.count)
}

// Quantile is the value that a share q of all values, 0 to 1, does not exceed;
// rounded up to the end of its bucket, but never above Max.
func (h *Histogram) Quantile(q float64) time.Duration {
	if h.count == 0 {
		return 0
	}
	want := uint64(math.Ceil(q * float64(h.count)))
	want = min(max(want, 1), h.count)
	var seen uint64
	for i, n := range h.buckets {
		if seen += n; seen >= want {
			return min(time.Duration(bucketEnd(i)), h.max)
		}
	}
	return h.max
}

// Latency is what is kept of a histogram, in seconds.
type Latency struct {
	Count uint64  `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p99.9"`
	Max   float64 `json:"max"`
}

// Latency sums h up.
func (h *Histogram) Latency() Latency {
	return Latency{
		Count: h.count,
		Mean:  h.Mean().Seconds(),
		P50:   h.Quantile(0.50).Seconds(),
		P90:   h.Quantile(0.90).Seconds(),
		P99:   h.Quantile(0.99).Seconds(),
		P999:  h.Quantile(0.999).Seconds(),
		Max:   h.max.Seconds(),
	}
}

// bucketOf numbers the buckets: the first 256 hold one value each, and from
// there on each power of two has 128.
func bucketOf(v uint64) int {
	if v < 2<<subBits {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return shift<<subBits + int(v>>shift)
}

// bucketEnd is the largest value that falls into bucket i.
func bucketEnd(i int) uint64 {
	if i < 2<<subBits {
		return uint64(i)
	}
	shift := i>>subBits - 1
	top := uint64(i - shift<<subBits)
	return (top+1)<<shift - 1
}
