package report

import (
	"fmt"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

const confidence = 0.95

// Spread limits above which a row is called noisy: half the interval, or half
// the range where there are too few samples for one, over the median.
const (
	noisySteady = 0.03
	noisyRate   = 0.10
)

// A Stat is a median with its interval.
type Stat struct {
	N              int
	Center, Lo, Hi float64
	Min, Max       float64
}

// NewStat sums values up: the median and its interval without an assumption
// about the distribution. Below 6 values there is no interval of 95 %, and Lo
// and Hi are infinite.
func NewStat(values []float64) Stat {
	if len(values) == 0 {
		return Stat{}
	}
	s := benchmath.AssumeNothing.Summary(sample(values), confidence)
	return Stat{N: len(values), Center: s.Center, Lo: s.Lo, Hi: s.Hi, Min: slices.Min(values), Max: slices.Max(values)}
}

// NewPaired sums up values that are symmetric around their middle, as differences
// and logarithms of ratios of equal things measured by turns are: the estimate of
// Hodges and Lehmann, and the interval of Wilcoxon's signed-rank test. Of n values
// it makes as much as a median makes of 3/2 n. Below 6 there is no interval of 95 %.
func NewPaired(values []float64) Stat {
	n := len(values)
	if n == 0 {
		return Stat{}
	}
	means := make([]float64, 0, n*(n+1)/2) // of each pair, and of each with itself
	for i, a := range values {
		for _, b := range values[i:] {
			means = append(means, a/2+b/2)
		}
	}
	slices.Sort(means)
	m := len(means)
	s := Stat{N: n, Center: means[(m-1)/2]/2 + means[m/2]/2, Lo: math.Inf(-1), Hi: math.Inf(1), Min: slices.Min(values), Max: slices.Max(values)}
	const z = 1.96 // of 95 %, for the normal distribution that the rank sum comes close to
	if k := int(float64(m)/2 - z*math.Sqrt(float64(m)*float64(2*n+1)/12)); k >= 1 {
		s.Lo, s.Hi = means[k-1], means[m-k]
	}
	return s
}

// NewMean sums up values by their mean and its interval, for counts too coarse for
// a median.
func NewMean(values []float64) Stat {
	if len(values) == 0 {
		return Stat{}
	}
	s := benchmath.AssumeNormal.Summary(sample(values), confidence)
	return Stat{N: len(values), Center: s.Center, Lo: s.Lo, Hi: s.Hi, Min: slices.Min(values), Max: slices.Max(values)}
}

// Spread is half the interval over the median; half the range when there is no
// interval.
func (s Stat) Spread() float64 {
	width := s.Hi - s.Lo
	if math.IsInf(width, 0) {
		width = s.Max - s.Min
	}
	if s.Center == 0 {
		if width == 0 {
			return 0
		}
		return math.Inf(1)
	}
	return width / 2 / math.Abs(s.Center)
}

// Noisy reports whether a figure of u with this spread should not be relied on.
func (s Stat) Noisy(u Unit) bool {
	if u.Steady {
		return s.Spread() > noisySteady
	}
	return s.Spread() > noisyRate
}

// A Delta is how one set of values differs from another.
type Delta struct {
	Base, Head Stat
	Ratio      float64 // head over base
	P          float64 // that chance alone made as large a difference
	Real       bool    // P below 0.05
}

// Compare compares two sets by the test that benchstat uses (Mann-Whitney).
func Compare(base, head []float64) Delta {
	d := Delta{Base: NewStat(base), Head: NewStat(head), Ratio: math.NaN(), P: 1}
	if len(base) == 0 || len(head) == 0 {
		return d
	}
	c := benchmath.AssumeNothing.Compare(sample(base), sample(head))
	d.P, d.Real = c.P, c.P < c.Alpha
	if d.Base.Center != 0 {
		d.Ratio = d.Head.Center / d.Base.Center
	}
	return d
}

// Text is the change in percent, or ~ when it may be chance.
func (d Delta) Text() string {
	if !d.Real || math.IsNaN(d.Ratio) {
		return "~"
	}
	return fmt.Sprintf("%+.1f%%", (d.Ratio-1)*100)
}

func sample(values []float64) *benchmath.Sample {
	return benchmath.NewSample(slices.Clone(values), &benchmath.DefaultThresholds)
}
