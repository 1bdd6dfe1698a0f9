package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// usualLoops is how many there are at most without a word from anybody, maxLoops
// with one.
const (
	usualLoops = 16
	maxLoops   = 256
)

// cpuSettings are what the environment says of CPUs; 0 where it says nothing.
type cpuSettings struct {
	node    int // ZTUNNEL_CPU_LIMIT: the node's, where the pod has no limit
	limit   int
	request int
	threads threads
}

// threads is the value of ZTUNNEL_WORKER_THREADS: a number, of which 0 stands for
// all CPUs, or a percentage of them.
type threads struct {
	given   bool
	number  int
	percent float64
}

// loops is how many to run on a machine where the process may use that many CPUs.
// Where the mesh's chart has set nothing, it is one for each.
func (c cpuSettings) loops(usable int) int {
	cpus := usable
	switch {
	case c.limit > 0:
		cpus = c.limit
	case c.node > 0:
		cpus = c.node
	}
	switch {
	case c.threads.given:
		return c.threads.of(cpus)
	case c.limit > 0:
		return max(c.limit, c.request)
	case c.node > 0 || c.request > 0:
		return max((cpus+3)/4, c.request, 2)
	}
	return min(cpus, usualLoops)
}

func (t threads) of(cpus int) int {
	switch {
	case t.percent > 0:
		return max(1, int(math.Ceil(float64(cpus)*t.percent/100)))
	case t.number == 0:
		return max(1, cpus)
	}
	return t.number
}

// parseThreads reads a number, or a percentage such as 50%.
func parseThreads(v string) (threads, error) {
	if p, ok := strings.CutSuffix(v, "%"); ok {
		n, err := strconv.ParseFloat(p, 64)
		if err != nil {
			return threads{}, fmt.Errorf("invalid percentage: %s", p)
		}
		if !(n > 0 && n <= 100) {
			return threads{}, errors.New("percentage must be between 0 and 100")
		}
		return threads{given: true, percent: n}, nil
	}
	n, err := strconv.ParseUint(v, 10, 8)
	if err != nil {
		return threads{}, fmt.Errorf("invalid number: %s; want 0 to 255, or a percentage", v)
	}
	return threads{given: true, number: int(n)}, nil
}

// parseCPUs reads 2, 1.5 or 500m and rounds up.
func parseCPUs(v string) (int, error) {
	number, scale := v, 1.0
	if m, ok := strings.CutSuffix(v, "m"); ok {
		number, scale = m, 1000
	}
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !(n > 0) || n/scale > 1<<16 {
		return 0, errors.New("must be a positive CPU quantity")
	}
	return int(math.Ceil(n / scale)), nil
}
