package loop

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"
)

// numbered is a Timed that a test tells from others.
type numbered struct {
	Timer
	n int
}

func (*numbered) Fire() {}

// clockwork drives a wheel with a clock of its own, beside the naive model: a
// map of what is armed.
type clockwork struct {
	t     *testing.T
	w     wheel
	now   time.Duration
	armed map[*numbered]uint64 // tick that each is due at
}

// arm does what Loop.Arm does.
func (c *clockwork) arm(n *numbered, d time.Duration) {
	c.w.remove(&n.Timer)
	n.what = n
	n.tick = uint64((c.now + d + tickTime - 1) / tickTime)
	c.w.insert(&n.Timer)
	c.armed[n] = n.tick
}

func (c *clockwork) disarm(n *numbered) {
	c.w.remove(&n.Timer)
	delete(c.armed, n)
}

// advance moves the clock and compares what fires with what the model says.
func (c *clockwork) advance(d time.Duration) {
	c.t.Helper()
	c.now += d
	var got, want []int
	for t := c.w.next(c.now); t != nil; t = c.w.next(c.now) {
		n := t.what.(*numbered)
		if n.Armed() {
			c.t.Fatalf("timer %d is armed when it fires", n.n)
		}
		got = append(got, n.n)
	}
	for n, tick := range c.armed {
		if tick <= uint64(c.now/tickTime) {
			want = append(want, n.n)
			delete(c.armed, n)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		c.t.Fatalf("at %v, after %v: fired %v; want %v", c.now, d, got, want)
	}
	if c.w.armed != len(c.armed) {
		c.t.Fatalf("at %v: the wheel counts %d armed; want %d", c.now, c.w.armed, len(c.armed))
	}
	c.checkSleep()
}

// checkSleep fails when the loop would sleep beyond a timer.
func (c *clockwork) checkSleep() {
	c.t.Helper()
	sleep := c.w.untilNext(c.now)
	if len(c.armed) == 0 {
		if sleep >= 0 {
			c.t.Fatalf("at %v: nothing is armed, but the loop would wake after %v", c.now, sleep)
		}
		return
	}
	first := slices.Min(slices.Collect(maps.Values(c.armed)))
	if due := max(0, time.Duration(first)*tickTime-c.now); sleep < 0 || sleep > due {
		c.t.Fatalf("at %v: a timer is due in %v, but the loop would sleep %v", c.now, due, sleep)
	}
}

// spread is a random duration whose size is spread over all magnitudes up to
// limit.
func spread(r *rand.Rand, limit time.Duration) time.Duration {
	d := time.Duration(1) << r.IntN(63)
	return time.Duration(r.Int64N(int64(min(d, limit)) + 1))
}

func TestWheelAgainstModel(t *testing.T) {
	const month = 31 * 24 * time.Hour
	for round := range 40 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		c := &clockwork{t: t, armed: map[*numbered]uint64{}}
		timers := make([]numbered, 50)
		for i := range timers {
			timers[i].n = i
		}
		c.advance(spread(r, month)) // the loop is not new
		t.Logf("round %d: seed %d, starts at %v", round, seed, c.now)
		for range 2000 {
			n := &timers[r.IntN(len(timers))]
			switch r.IntN(8) {
			case 0:
				c.disarm(n)
			case 1:
				c.advance(spread(r, 3*24*time.Hour))
			case 2: // wakes when the wheel says, as the loop does
				if sleep := c.w.untilNext(c.now); sleep > 0 {
					c.advance(sleep)
				}
			default:
				c.arm(n, spread(r, month))
			}
			c.checkSleep()
		}
		c.advance(2 * month)
	}
}

// A slot of each level ends at a multiple of a power of 64 ticks. A timer that
// is armed just before such a border, for just behind it, is on time.
func TestWheelAtBorders(t *testing.T) {
	for level := range 6 {
		border := uint64(1) << (wheelBits * level)
		for _, at := range []uint64{border, 3 * border, 63 * border, 64 * border, 65 * border} {
			for _, before := range []uint64{0, 1, 2} {
				for _, ahead := range []uint64{0, 1, 2, 3, 64, 2500, 1 << 18, 1<<24 - 1, 1 << 24, 1<<24 + 1} {
					if before > at {
						continue
					}
					c := &clockwork{t: t, armed: map[*numbered]uint64{}}
					c.advance(time.Duration(at-before) * tickTime)
					c.arm(new(numbered), time.Duration(ahead)*tickTime)
					c.checkSleep()
					if ahead > 0 {
						c.advance(time.Duration(ahead-1) * tickTime)
					}
					c.advance(tickTime)
					if len(c.armed) != 0 {
						t.Fatalf("armed %d ticks before tick %d for %d later: did not fire", before, at, ahead)
					}
				}
			}
		}
	}
}

// A timer that is moved or stopped by another that fires in the same turn does
// not fire in its old place.
func TestWheelChangedWhileFiring(t *testing.T) {
	c := &clockwork{t: t, armed: map[*numbered]uint64{}}
	var timers [3]numbered
	for i := range timers {
		timers[i].n = i
		c.arm(&timers[i], 10*tickTime)
	}
	c.now = 20 * tickTime
	first := c.w.next(c.now)
	if first != &timers[0].Timer {
		t.Fatal("timers of one tick do not fire in the order in which they were armed")
	}
	delete(c.armed, &timers[0])
	c.disarm(&timers[1])
	c.arm(&timers[2], 5*tickTime)
	c.advance(4 * tickTime) // nothing
	c.advance(tickTime)     // the moved one
}

// What is armed for now, or for the past, fires in the same turn.
func TestWheelDueAtOnce(t *testing.T) {
	c := &clockwork{t: t, armed: map[*numbered]uint64{}}
	c.advance(time.Hour)
	n := new(numbered)
	c.arm(n, 0)
	c.checkSleep()
	c.advance(0)
	if n.Armed() {
		t.Error("a timer for now did not fire")
	}
}

func TestTimerBudget(t *testing.T) {
	const timerBytes = 48 // three of them are in a session
	if got := unsafe.Sizeof(Timer{}); got > timerBytes {
		t.Errorf("a timer is %d bytes; budget %d", got, timerBytes)
	}
}
