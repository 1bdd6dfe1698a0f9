package identity

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
)

// A Waiter is told about the first certificate of a Source.
type Waiter interface {
	// Certified is called once, on a goroutine of the Manager or of whoever
	// calls Wait, so it does nothing but post to a loop. One of the two is nil.
	Certified(c *Certificate, err error)
}

// A Source is the certificate of one identity, kept fresh until Release. It is owned
// by who acquired it: a pod.
type Source struct {
	e        *entry
	released atomic.Bool
}

// An entry is what all Sources of one identity share.
type entry struct {
	// Fixed.
	m    *Manager
	id   ID
	ctx  context.Context // ends with the last Source
	stop context.CancelFunc

	// Shared with whoever shakes hands.
	state atomic.Pointer[state]

	// Guarded by m.mu.
	users   int
	waiters []Waiter
	failing error // of the last renewal
}

// A state is what handshakes get: a certificate that is good, or why there is none.
type state struct {
	cert *Certificate
	err  error
}

// ID returns whose certificate it is.
func (s *Source) ID() ID { return s.e.id }

// Get returns the certificate for a handshake that begins now; one load. The error
// is ErrPending before the first one: then Wait. Any other one will do for this
// flow: the Manager goes on trying.
func (s *Source) Get() (*Certificate, error) {
	st := s.e.state.Load()
	return st.cert, st.err
}

// Wait has w told as soon as there is a certificate, or the first attempt failed,
// which may be before Wait returns.
func (s *Source) Wait(w Waiter) {
	e := s.e
	e.m.mu.Lock()
	st := e.state.Load()
	if errors.Is(st.err, ErrPending) {
		e.waiters = append(e.waiters, w)
		e.m.stats.Waiting++
		e.m.mu.Unlock()
		return
	}
	e.m.mu.Unlock()
	w.Certified(st.cert, st.err)
}

// Forget takes back a Wait and reports whether w will not be told any more. False
// means that it was told already, or is being told.
func (s *Source) Forget(w Waiter) bool {
	e := s.e
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	i := slices.Index(e.waiters, w)
	if i < 0 {
		return false
	}
	e.waiters = slices.Delete(e.waiters, i, i+1)
	e.m.stats.Waiting--
	return true
}

// Release ends the use of s; a second one does nothing. Certificates that it gave
// stay good. With the last Source of an identity its renewal ends, and who waits is
// told ErrReleased.
func (s *Source) Release() {
	if s.released.Swap(true) {
		return
	}
	e, m := s.e, s.e.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.users--; e.users == 0 {
		delete(m.entries, e.id)
		m.stats.Sources--
		e.stop()
	}
}

// publish sets what handshakes get, and tells who waited.
func (e *entry) publish(st *state) {
	e.m.mu.Lock()
	e.state.Store(st)
	told := e.waiters
	e.waiters = nil
	e.m.stats.Waiting -= len(told)
	e.m.mu.Unlock()
	for _, w := range told {
		w.Certified(st.cert, st.err)
	}
}
