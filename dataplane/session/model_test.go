package session_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/session"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

// A modelled is what a flow must look like from outside: the two far sides, and
// what went through them so far. Side 0 is the client's.
type modelled struct {
	id   uint64
	up   bool // the connection to the server is there
	far  [2]*net.TCPConn
	sent [2]uint64
	shut [2]bool
}

// A world is a pod with live flows, and the records of those that ended.
type world struct {
	*bare
	r       *rand.Rand
	live    []*modelled
	records map[uint64]flow.Record
	seen    map[string]int // steps that were taken, by name
}

// Flows begin, carry bytes, are half-closed, reset, cut, written down and taken
// up by another loop, in any order. Each has exactly one record with the reason
// and the counts that a model of it says, at each moment exactly the live ones
// are listed in the state that they must have, and at the end nothing is left.
func TestSessionsAgainstModel(t *testing.T) {
	testkit.NoLeaks(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &world{
		bare: newBare(t, loop.Config{}), r: rand.New(rand.NewPCG(seed, 0)),
		records: map[uint64]flow.Record{}, seen: map[string]int{},
	}
	const steps = 600
	for range steps {
		w.step(t)
		w.compare(t)
		if t.Failed() {
			t.FailNow()
		}
	}
	for len(w.live) > 0 {
		w.cut(t, w.live[0])
	}
	w.compare(t)
	t.Logf("steps: %v", w.seen)
	for _, name := range []string{
		"begin up", "begin dialing", "send", "half-close", "second half-close", "client resets", "server resets",
		"client gives up the dial", "cut", "cut while dialing", "freeze", "refused thaw",
	} {
		if w.seen[name] == 0 {
			t.Errorf("step %q was never taken: this test shows too little", name)
		}
	}
}

// step does one thing that can happen.
func (w *world) step(t *testing.T) {
	const most = 6
	if len(w.live) == 0 || len(w.live) < most && w.r.IntN(4) == 0 {
		m := &modelled{up: w.r.IntN(4) > 0}
		m.id, m.far[0], m.far[1] = w.adoptID(t, m.up)
		w.live = append(w.live, m)
		w.note("begin", m.up, "up", "dialing")
		return
	}
	m := w.live[w.r.IntN(len(w.live))]
	side := w.r.IntN(2)
	switch what := w.r.IntN(10); {
	case what < 1:
		w.refreeze(t)
	case what < 2:
		w.note("cut", m.up, "", "while dialing")
		w.cut(t, m)
	case !m.up && what < 5:
		w.seen["client gives up the dial"]++
		testkit.ResetTCP(t, m.far[0])
		w.ended(t, m, flow.CloseClientGone)
	case !m.up:
	case what < 6 && !m.shut[side]:
		w.seen["send"]++
		w.send(t, m, side, 1+w.r.IntN(40_000))
	case what < 8 && !m.shut[side]:
		w.note("", m.shut[1-side], "second half-close", "half-close")
		if err := m.far[side].CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if n, err := m.far[1-side].Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Fatalf("flow %d: side %d shut; the other read %d bytes, %v; want the end", m.id, side, n, err)
		}
		if m.shut[side] = true; m.shut[1-side] {
			w.ended(t, m, flow.CloseEOF)
		}
	case what == 8:
		why := [2]flow.CloseReason{flow.CloseClientReset, flow.CloseServerReset}[side]
		w.note("", side == 0, "client resets", "server resets")
		testkit.ResetTCP(t, m.far[side])
		w.ended(t, m, why)
		if !m.shut[side] {
			wantReset(t, m.far[1-side])
		}
	}
}

// note counts a step by its name, and a word for yes or no.
func (w *world) note(name string, is bool, yes, no string) {
	word := no
	if is {
		word = yes
	}
	switch {
	case name == "":
		name = word
	case word != "":
		name += " " + word
	}
	w.seen[name]++
}

// send has bytes go through the flow.
func (w *world) send(t *testing.T, m *modelled, side, n int) {
	out, in := make([]byte, n), make([]byte, n)
	for i := range out {
		out[i] = byte(w.r.Uint32())
	}
	wrote := make(chan error, 1)
	go func() {
		_, err := m.far[side].Write(out)
		wrote <- err
	}()
	if _, err := io.ReadFull(m.far[1-side], in); err != nil || !bytes.Equal(in, out) {
		t.Fatalf("flow %d: %d bytes from side %d: %v, or they changed", m.id, n, side, err)
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
	m.sent[side] += uint64(n)
}

// cut ends a flow from outside.
func (w *world) cut(t *testing.T, m *modelled) {
	found := false
	for _, l := range w.loops {
		onloop.Do(t, l, func() { found = found || session.Cut(l, m.id, flow.CloseDrain) })
	}
	if !found {
		t.Fatalf("flow %d is on no loop", m.id)
	}
	w.ended(t, m, flow.CloseDrain)
	for side, far := range m.far {
		if !m.shut[1-side] && (side == 0 || m.up) {
			wantReset(t, far)
		}
	}
}

func wantReset(t *testing.T, c *net.TCPConn) {
	t.Helper()
	if n, err := c.Read(make([]byte, 1)); sys.ErrnoOf(err) != sys.ECONNRESET {
		t.Fatalf("read %d bytes, %v; want a reset", n, err)
	}
}

// refreeze writes all flows of one loop down, takes each up on any loop, and now
// and then damages what was written.
func (w *world) refreeze(t *testing.T) {
	var all []*session.Frozen
	from := w.loops[w.r.IntN(2)]
	ids := map[*session.Frozen]*modelled{}
	onloop.Do(t, from, func() {
		here := session.Here(from, 100)
		all = w.pod.FreezeAll(from)
		for i, f := range all {
			for _, m := range w.live {
				if m.id == here[i].ID {
					ids[f] = m
				}
			}
		}
	})
	for _, f := range all {
		w.seen["freeze"]++
		m := ids[f]
		if m == nil {
			t.Fatal("a flow was frozen that the model does not have")
		}
		if w.r.IntN(8) > 0 {
			w.thaw(t, f, w.loops[w.r.IntN(2)])
			if len(w.fault) > 0 {
				t.Fatalf("flow %d: %v", m.id, <-w.fault)
			}
			continue
		}
		w.seen["refused thaw"]++
		f.State = f.State[:w.r.IntN(len(f.State))]
		w.thaw(t, f, w.loops[w.r.IntN(2)])
		testkit.Receive(t, testkit.Wait, "the fault", w.fault)
		w.take(t)
		if rec, ok := w.records[m.id]; ok && rec.Reason != flow.CloseInternal {
			t.Fatalf("flow %d, refused: ended with %v", m.id, rec.Reason)
		}
		w.forget(m)
	}
}

// take collects the records that wait; no flow has two.
func (w *world) take(t *testing.T) {
	for _, r := range w.env.Rings() {
		r.Take(func(rec *flow.Record) {
			if _, twice := w.records[rec.ID]; twice {
				t.Errorf("flow %d has two records", rec.ID)
			}
			w.records[rec.ID] = *rec
		})
	}
}

// ended waits for the record of m and compares it.
func (w *world) ended(t *testing.T, m *modelled, why flow.CloseReason) {
	t.Helper()
	testkit.Eventually(t, testkit.Wait, fmt.Sprintf("the record of flow %d", m.id), func() bool {
		w.take(t)
		_, ok := w.records[m.id]
		return ok
	})
	rec := w.records[m.id]
	if rec.Reason != why || rec.Counts != (flow.Counts{Up: m.sent[0], Down: m.sent[1]}) || rec.Tuple != tuple {
		t.Fatalf("flow %d ended with %v, %+v, %v; want %v and %v bytes", m.id, rec.Reason, rec.Counts, rec.Tuple, why, m.sent)
	}
	w.forget(m)
}

func (w *world) forget(m *modelled) {
	for i := range w.live {
		if w.live[i] == m {
			w.live = append(w.live[:i], w.live[i+1:]...)
			return
		}
	}
}

// compare has the loops list exactly the live flows, as they must be.
func (w *world) compare(t *testing.T) {
	t.Helper()
	w.take(t)
	got := map[uint64]flow.Info{}
	for _, l := range w.loops {
		onloop.Do(t, l, func() {
			for _, i := range session.Here(l, 100) {
				if _, twice := got[i.ID]; twice {
					t.Errorf("flow %d is on both loops", i.ID)
				}
				got[i.ID] = i
			}
		})
	}
	for _, m := range w.live {
		i, ok := got[m.id]
		want := map[bool]string{true: "relaying", false: "dialing"}[m.up]
		if !ok || i.State != want || i.UpEnded != m.shut[0] || i.DownEnded != m.shut[1] ||
			i.Counts != (flow.Counts{Up: m.sent[0], Down: m.sent[1]}) {
			t.Errorf("flow %d is %+v, listed %v; want it %s, with %v bytes, shut %v", m.id, i, ok, want, m.sent, m.shut)
		}
		if _, over := w.records[m.id]; over {
			t.Errorf("flow %d lives and has a record: %+v", m.id, w.records[m.id])
		}
	}
	if len(got) != len(w.live) {
		t.Errorf("%d flows are listed; want %d", len(got), len(w.live))
	}
}
