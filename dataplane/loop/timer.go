package loop

import (
	"math/bits"
	"time"
)

// Timed is told when its timer fires.
type Timed interface{ Fire() }

// A Timer fires once. It is embedded in what it belongs to, so that arming it
// allocates nothing; the zero value is not armed.
type Timer struct {
	what       Timed
	next, prev *Timer // in a ring whose head is a slot of the wheel
	tick       uint64 // when it is due
	slot       int32
}

// Armed reports whether t will fire.
func (t *Timer) Armed() bool { return t.next != nil }

// Left is how long it is until t fires; 0 when it is due or not armed.
func (l *Loop) Left(t *Timer) time.Duration {
	if !t.Armed() {
		return 0
	}
	return max(0, time.Duration(t.tick)*tickTime-l.now)
}

// Arm has what told after d, rounded up to a tick of the wheel. A timer that is
// armed is moved.
func (l *Loop) Arm(t *Timer, d time.Duration, what Timed) {
	l.onLoop()
	l.timers.remove(t)
	t.what = what
	t.tick = uint64((l.now + max(d, 0) + tickTime - 1) / tickTime)
	l.timers.insert(t)
}

// Disarm stops t; one that is not armed stays so.
func (l *Loop) Disarm(t *Timer) {
	l.onLoop()
	l.timers.remove(t)
}

// The wheel has a tick of 4 ms and four levels of 64 slots: 0.26 s, 16 s,
// 18 min and 19 h. What is further away sits in the slot of the last level that
// comes round last, and is put in again then.
const (
	tickTime   = 4 * time.Millisecond
	wheelBits  = 6
	wheelSlots = 1 << wheelBits
	levels     = 4
)

// wheel is a hierarchical timing wheel. Invariant: every armed timer has
// tick > done, or sits in due; the slot of level n that a timer is in is the
// n-th digit of its tick in base 64, and higher digits equal those of done. On
// the last level they need not: a slot before the hand is one of the next round.
type wheel struct {
	heads [levels * wheelSlots]Timer
	used  [levels]uint64 // a bit for each slot that is not empty
	due   Timer          // ring of timers to fire now
	done  uint64         // ticks up to this one have been looked at
	armed int
}

func (t *Timer) ring() {
	if t.next == nil {
		t.next, t.prev = t, t
	}
}

const dueSlot = -1

func (w *wheel) head(slot int32) *Timer {
	h := &w.due
	if slot != dueSlot {
		h = &w.heads[slot]
	}
	h.ring()
	return h
}

func (w *wheel) insert(t *Timer) {
	t.slot = w.slotOf(t.tick)
	if t.slot != dueSlot {
		w.used[t.slot/wheelSlots] |= 1 << (t.slot % wheelSlots)
	}
	h := w.head(t.slot)
	t.prev, t.next = h.prev, h
	h.prev.next, h.prev = t, t
	w.armed++
}

// slotOf finds the lowest level at which tick and done share all higher digits.
func (w *wheel) slotOf(tick uint64) int32 {
	if tick <= w.done {
		return dueSlot
	}
	level := (63 - bits.LeadingZeros64(tick^w.done)) / wheelBits
	if level >= levels {
		level = levels - 1
		const shift = wheelBits * (levels - 1)
		// Too far: the slot just behind the hand, which is looked at last.
		tick = min(tick>>shift, w.done>>shift+wheelSlots-1) << shift
	}
	return int32(level*wheelSlots) + int32(tick>>(wheelBits*level)&(wheelSlots-1))
}

func (w *wheel) remove(t *Timer) {
	if t.next == nil {
		return
	}
	t.prev.next, t.next.prev = t.next, t.prev
	if t.slot != dueSlot && t.next == t.prev { // only the head is left
		w.used[t.slot/wheelSlots] &^= 1 << (t.slot % wheelSlots)
	}
	t.next, t.prev = nil, nil
	w.armed--
}

// next takes the next timer that is due by now out of the wheel; nil when there
// is none.
func (w *wheel) next(now time.Duration) *Timer {
	w.advance(uint64(now / tickTime))
	h := w.head(dueSlot)
	if h.next == h {
		return nil
	}
	t := h.next
	w.remove(t)
	return t
}

// advance looks at all ticks up to tick, jumping from one used slot to the next.
func (w *wheel) advance(tick uint64) {
	for w.done < tick {
		next := w.nextTick()
		if next > tick {
			// Digits of higher levels may change without a used slot in
			// between, which breaks nothing: those slots were empty.
			w.done = tick
			return
		}
		w.done = next
		w.cascade()
	}
}

// nextTick is the first tick after done at which a used slot of any level
// begins.
func (w *wheel) nextTick() uint64 {
	best := ^uint64(0)
	for level := range levels {
		used := w.used[level]
		if used == 0 {
			continue
		}
		shift := wheelBits * level
		hand := w.done >> shift
		pos := hand & (wheelSlots - 1)
		// Slots after the hand come in this round, the others in the next.
		ahead := used >> (pos + 1) << (pos + 1)
		var at uint64
		if ahead != 0 {
			at = hand&^(wheelSlots-1) + uint64(bits.TrailingZeros64(ahead))
		} else {
			at = hand&^(wheelSlots-1) + wheelSlots + uint64(bits.TrailingZeros64(used))
		}
		best = min(best, at<<shift)
	}
	return best
}

// cascade moves the timers of every slot that begins at done to where they
// belong now: due, or a lower level.
func (w *wheel) cascade() {
	for level := range levels {
		shift := wheelBits * level
		if w.done&(1<<shift-1) != 0 {
			return
		}
		i := int32(level*wheelSlots) + int32(w.done>>shift&(wheelSlots-1))
		h := w.head(i)
		for h.next != h {
			t := h.next
			w.remove(t)
			w.insert(t)
		}
	}
}

// untilNext is how long the loop may sleep; negative means for ever.
func (w *wheel) untilNext(now time.Duration) time.Duration {
	if w.armed == 0 {
		return -1
	}
	if h := w.head(dueSlot); h.next != h {
		return 0
	}
	next := w.nextTick()
	if next == ^uint64(0) {
		return -1
	}
	return max(0, time.Duration(next)*tickTime-now)
}
