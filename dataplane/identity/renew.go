package identity

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	firstRetry = time.Second
	lastRetry  = 150 * time.Second

	// leastPause is between any two calls of Issue for one identity, should an
	// issuer give certificates whose half life is over already.
	leastPause = time.Second

	// longestNap bounds how long a clock that was set, or a machine that slept,
	// goes unnoticed: timers know nothing of either.
	longestNap = time.Minute
)

// keep renews the certificate until nobody needs it.
func (e *entry) keep() {
	defer e.publish(&state{err: fmt.Errorf("certificate of %v: %w", e.id, ErrReleased)})
	retry := firstRetry
	for {
		cert, err := e.issue()
		if e.ctx.Err() != nil {
			return
		}
		now := e.m.now()
		next := now.Add(leastPause)
		if err == nil {
			retry = firstRetry
			next = later(next, cert.halfLife())
			e.succeeded(cert, next)
		} else {
			next = now.Add(jitter(retry))
			retry = min(2*retry, lastRetry)
			if old := e.state.Load().cert; old != nil && old.checkTime(now) == nil {
				next = earlier(next, old.NotAfter().Add(time.Nanosecond))
			}
			e.failed(err, now, next)
		}
		if !e.sleep(next) {
			return
		}
	}
}

// issue asks the issuer, with a bound on how many do so at once, and looks at what
// it gave.
func (e *entry) issue() (*Certificate, error) {
	select {
	case e.m.slots <- struct{}{}:
		defer func() { <-e.m.slots }()
	case <-e.ctx.Done():
		return nil, e.ctx.Err()
	}
	cert, err := e.m.issuer.Issue(e.ctx, e.id)
	if err != nil {
		return nil, err
	}
	if cert.ID() != e.id {
		return nil, fmt.Errorf("the issuer gave a certificate of %v", cert.ID())
	}
	if err := cert.checkTime(e.m.now()); err != nil {
		return nil, err
	}
	return cert, nil
}

// succeeded gives a new certificate to all handshakes from now on.
func (e *entry) succeeded(cert *Certificate, next time.Time) {
	e.m.mu.Lock()
	e.m.stats.Issued++
	e.failing = nil
	e.m.mu.Unlock()
	e.publish(&state{cert: cert})
	e.m.log.Debug("certificate issued", "identity", e.id.String(), "serial", cert.Serial(),
		"not_before", cert.NotBefore(), "not_after", cert.NotAfter(), "renewed_at", next)
}

// failed counts and logs a failure. A certificate that is still good stays.
func (e *entry) failed(err error, now, next time.Time) {
	old := e.state.Load().cert
	good := old != nil && old.checkTime(now) == nil
	e.m.mu.Lock()
	e.m.stats.Failures++
	e.failing = err
	if old != nil && !good {
		e.m.stats.Lapsed++
	}
	e.m.mu.Unlock()
	if good {
		e.m.log.Warn("certificate not renewed; the old one is still good", "identity", e.id.String(),
			"error", err, "not_after", old.NotAfter(), "retry_in", next.Sub(now).Round(time.Millisecond))
		return
	}
	e.m.log.Error("no certificate", "identity", e.id.String(), "error", err, "retry_in", next.Sub(now).Round(time.Millisecond))
	why := err
	if old != nil {
		why = errors.Join(old.checkTime(now), err)
	}
	e.publish(&state{err: fmt.Errorf("certificate of %v: %w", e.id, why)})
}

// sleep returns true at the time until, or false when nobody needs the identity.
func (e *entry) sleep(until time.Time) bool {
	for {
		d := until.Sub(e.m.now())
		if d <= 0 {
			return true
		}
		timer := time.NewTimer(min(d, longestNap))
		select {
		case <-timer.C:
		case <-e.ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// jitter returns d, give or take a fifth, so that many don't come back at once.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration((rand.Float64()-0.5)*0.4*float64(d))
}
