package tlsrec

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/gcm"
)

// thawed sends s through its encoding.
func thawed(t testing.TB, s State) State {
	t.Helper()
	b := s.Append([]byte("before"))
	d := flow.NewDecoder(append(b[len("before"):], "behind"...))
	var out State
	out.Decode(d)
	if d.Err() != nil || string(d.Rest()) != "behind" {
		t.Fatalf("decode: %v, %q left", d.Err(), d.Rest())
	}
	return out
}

// TestFreezeEverywhere freezes and thaws both sides at every moment of a
// conversation with half records, half messages, owed answers and new keys.
func TestFreezeEverywhere(t *testing.T) {
	forSuites(t, func(t *testing.T, s Suite) {
		client, server := states(t, s)
		r, back := writer(&server), reader(&server)
		m := ticket(300)
		wire := joined(
			r.data("a"), r.record(22, m[:3]...), r.record(22, m[3:100]...), r.record(22, m[100:]...), r.data("b"),
			r.keyUpdate(1), r.record(23), r.data("c"), r.record(22, 24, 0), r.record(22, 0, 1, 0))
		r.update()
		wire = append(wire, joined(r.data("d"), r.record(21, 1, 0))...)

		var (
			got      string
			answered []byte
			unopened []byte
		)
		c := newConn(t, &client)
		for i, x := range wire {
			st := thawed(t, c.Freeze(append(unopened, x)))
			c = newConn(t, &st)
			payloads, n, err := c.Open(st.Unopened, make([][]byte, 0, 2))
			got += string(bytes.Join(payloads, nil))
			unopened = bytes.Clone(st.Unopened[n:])
			if err != nil && (!errors.Is(err, io.EOF) || i != len(wire)-1) {
				t.Fatalf("byte %d: %v", i, err)
			}
			// An answer is owed for several freezes.
			if c.Owes() && i == len(wire)-60 {
				if answered, err = c.AppendOwed(answered); err != nil {
					t.Fatal(err)
				}
				answered = append(answered, sealed(t, c, []byte("x"))...)
			}
		}
		if got != "abcd" {
			t.Errorf("got %q", got)
		}
		rest := back.wantRecord(t, answered, 22, "\x18\x00\x00\x01\x00")
		back.update()
		back.wantRecord(t, rest, 23, "x")

		// Both directions are closed now, and stay so.
		if _, err := c.AppendAlert(nil, CloseNotify); err != nil {
			t.Fatal(err)
		}
		c = newConn(t, new(thawed(t, c.Freeze(nil))))
		if _, _, err := c.Open([]byte("ignored"), make([][]byte, 0, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("open behind close_notify: %v", err)
		}
		if _, err := c.Seal(make([]byte, Overhead), 0); !errors.Is(err, ErrClosed) {
			t.Errorf("seal behind close_notify: %v", err)
		}
	})
}

// TestStateRefused wants damaged encodings refused by name.
func TestStateRefused(t *testing.T) {
	good := State{Role: Client, Suite: AES128GCM, message: []byte{4, 0}, Unopened: []byte("part")}
	encoded := good.Append(nil)
	for n := range encoded {
		var s State
		d := flow.NewDecoder(encoded[:n])
		if s.Decode(d); !errors.Is(d.Err(), flow.ErrState) {
			t.Errorf("%d of %d bytes: %v", n, len(encoded), d.Err())
		}
	}
	for what, change := range map[string]func(b []byte) []byte{
		"version 9":     func(b []byte) []byte { b[0] = 9; return b },
		"bad role":      func(b []byte) []byte { b[1] = 2; return b },
		"unknown suite": func(b []byte) []byte { b[3] = 4; return b },
		"unknown flags": func(b []byte) []byte { b[4] = 8; return b },
		"unknown debt":  func(b []byte) []byte { b[5] = 3; return b },
		"too many idle": func(b []byte) []byte { b[6] = maxIdle + 1; return b },
		"not a part of": func(b []byte) []byte { b[1] = 1; return b }, // a ticket for a server
		"bad length":    func(b []byte) []byte { b[len(b)-5] = 200; return b },
	} {
		var s State
		d := flow.NewDecoder(change(bytes.Clone(encoded)))
		if s.Decode(d); d.Err() == nil || !strings.Contains(d.Err().Error(), what) {
			t.Errorf("%s: %v", what, d.Err())
		}
	}
}

// TestNewConnRefuses wants faults named.
func TestNewConnRefuses(t *testing.T) {
	if _, err := NewConn(&State{Suite: 0x1304}, gcm.Auto); err == nil || !strings.Contains(err.Error(), "suite(0x1304)") {
		t.Errorf("unknown suite: %v", err)
	}
	if _, err := NewConn(&State{Suite: AES128GCM}, gcm.Impl(99)); err == nil || !strings.Contains(err.Error(), "impl(99)") {
		t.Errorf("unknown implementation: %v", err)
	}
}

// TestNoSecretsInText prints everything that holds secrets in every way that a log
// or a test would.
func TestNoSecretsInText(t *testing.T) {
	s, _ := states(t, AES256GCM)
	c := newConn(t, &s)
	r := &Result{State: s}
	var all strings.Builder
	for _, v := range []any{s, &s, s.Read, &s.Read, c, *r, r} {
		fmt.Fprintf(&all, "%v %+v %#v %d %x %s %q\n", v, v, v, v, v, v, v)
	}
	text := all.String()
	for _, secret := range [][]byte{s.Read.Secret[:], s.Write.Secret[:]} {
		for _, shown := range []string{fmt.Sprint(secret[:8]), fmt.Sprintf("%#v", secret[:4])[7:], string(secret[:8]), hex.EncodeToString(secret[:8]), fmt.Sprintf("%q", secret[:8])} {
			if strings.Contains(text, strings.Trim(shown, `[]{}"`)) {
				t.Fatalf("%s is in the text", shown)
			}
		}
	}
}

// TestClear wants nothing left in what was cleared.
func TestClear(t *testing.T) {
	s, _ := states(t, AES128GCM)
	s.Unopened, s.message = []byte("unopened"), []byte("message")
	unopened, message := s.Unopened, s.message
	s.Clear()
	if !reflect.DeepEqual(s, State{}) || string(unopened) != string(make([]byte, 8)) || string(message) != string(make([]byte, 7)) {
		t.Errorf("left: %v, %q, %q", s, unopened, message)
	}

	s, _ = states(t, AES128GCM)
	c := newConn(t, &s)
	c.Destroy()
	if c.read.secret != [maxSecretLen]byte{} || c.write.secret != [maxSecretLen]byte{} || c.read.key != nil || c.read.iv != [nonceLen]byte{} {
		t.Error("Destroy left secrets")
	}
	if _, _, err := c.Open([]byte{23}, make([][]byte, 0, 1)); !errors.Is(err, errDestroyed) {
		t.Errorf("open after Destroy: %v", err)
	}
	if _, err := c.Seal(make([]byte, Overhead), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("seal after Destroy: %v", err)
	}
	c.Destroy()
}
