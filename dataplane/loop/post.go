package loop

import "github.com/sluice-mesh/sluice/dataplane/sys"

// A Call runs once, on the loop that it was posted to.
type Call interface{ Call() }

// Func is a Call for what is rare; a flow posts a value of its own.
type Func func()

// Call runs f.
func (f Func) Call() { f() }

// A Runner is run at a fixed place of a turn.
type Runner interface{ Run() }

// Post has c called on the loop, after the events of a turn; from anywhere. It
// reports false when the loop has ended: then c is not called.
func (l *Loop) Post(c Call) bool {
	l.mu.Lock()
	if l.ended {
		l.mu.Unlock()
		return false
	}
	l.posted = append(l.posted, c)
	// The loop stores asleep before it looks at posted for the last time, so
	// one of the two sees the other.
	wake := l.asleep.Load()
	if wake {
		l.waking.Add(1)
	}
	l.mu.Unlock()
	if wake {
		sys.Signal(&l.wake)
		l.waking.Add(-1)
	}
	return true
}

// Do runs fn on the loop and waits for it; from any goroutine but a loop's. It
// reports false when the loop has ended.
func (l *Loop) Do(fn func()) bool {
	done := make(chan struct{})
	if !l.Post(Func(func() { defer close(done); fn() })) {
		return false
	}
	<-done
	return true
}

func (l *Loop) hasPosted() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.posted) > 0
}

// takePosted swaps the two lists, so that neither is made anew.
func (l *Loop) takePosted() {
	if len(l.calls) > 0 {
		return // left over from a turn that was cut short
	}
	l.mu.Lock()
	l.calls, l.posted = l.posted, l.spare[:0]
	l.mu.Unlock()
	l.spare = l.calls[:0]
}

// Again runs r after the ready sources of the next turn: for a source that used
// up its share of this one.
func (l *Loop) Again(r Runner) {
	l.onLoop()
	l.again = append(l.again, r)
}

// Flush runs r at the end of this turn.
func (l *Loop) Flush(r Runner) {
	l.onLoop()
	l.flushes = append(l.flushes, r)
}
