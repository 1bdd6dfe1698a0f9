package tlsrec

import (
	"bytes"
	"crypto/tls"
	"errors"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/gcm"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// TestUpdateOwed wants the answer to an update_requested before more data, once for
// any number of requests (RFC 8446 4.6.3).
func TestUpdateOwed(t *testing.T) {
	forSuites(t, func(t *testing.T, s Suite) {
		client, server := states(t, s)
		c, peer, back := newConn(t, &client), writer(&server), reader(&server)
		if c.Owes() {
			t.Fatal("owes without a reason")
		}
		opened(t, c, joined(peer.keyUpdate(1), peer.data("a"), peer.keyUpdate(1), peer.data("b")))
		if !c.Owes() {
			t.Fatal("owes nothing after update_requested")
		}
		for name, seal := range map[string]func() error{
			"Seal":     func() error { _, err := c.Seal(make([]byte, Overhead+1), 1); return err },
			"SealEach": func() error { return c.SealEach(make([]byte, 3*Overhead), Overhead) },
			"SealTo":   func() error { _, err := c.SealTo(make([]byte, 100), []byte("x")); return err },
		} {
			if err := seal(); !errors.Is(err, ErrOwes) {
				t.Errorf("%s before the answer: %v", name, err)
			}
		}
		b, err := c.AppendOwed(nil)
		if err != nil || len(b) != OwedLen || c.Owes() {
			t.Fatalf("%d bytes, %v, still owes %v", len(b), err, c.Owes())
		}
		if again, err := c.AppendOwed(nil); len(again) > 0 || err != nil {
			t.Errorf("a second answer: %x, %v", again, err)
		}
		b = append(b, sealed(t, c, []byte("data"))...)
		b = back.wantRecord(t, b, 22, "\x18\x00\x00\x01\x00")
		back.update()
		back.wantRecord(t, b, 23, "data")
		if got := opened(t, c, joined(peer.keyUpdate(0), peer.data("c"))); string(got) != "c" || c.Owes() {
			t.Errorf("got %q, owes %v", got, c.Owes())
		}
	})
}

// TestUpdateOfOurs wants RequestUpdate to do what it says, also twice.
func TestUpdateOfOurs(t *testing.T) {
	for _, tt := range []struct {
		name     string
		requests []bool
		want     byte
	}{
		{"without a request", []bool{false}, 0},
		{"with a request", []bool{true}, 1},
		{"the request stays", []bool{true, false}, 1},
		{"the request is added", []bool{false, true}, 1},
	} {
		client, server := states(t, AES128GCM)
		c, back := newConn(t, &client), reader(&server)
		for _, r := range tt.requests {
			c.RequestUpdate(r)
		}
		b, err := c.AppendOwed(nil)
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, sealed(t, c, []byte("x"))...)
		b = back.wantRecord(t, b, 22, string([]byte{24, 0, 0, 1, tt.want}))
		back.update()
		back.wantRecord(t, b, 23, "x")
	}
}

// TestUpdateBeforeLimit wants a KeyUpdate long before 2^24.5 records under one key
// (RFC 8446 5.5), and a refusal to go beyond 2^24 without one.
func TestUpdateBeforeLimit(t *testing.T) {
	forSuites(t, func(t *testing.T, s Suite) {
		client, server := states(t, s)
		client.Write.Seq, server.Read.Seq = updateAfter-2, updateAfter-2
		c, back := newConn(t, &client), reader(&server)
		// The batch that crosses the mark is not cut.
		b := sealed(t, c, make([]byte, 3*MaxPlaintext))
		for range 3 {
			b = back.wantRecord(t, b, 23, string(make([]byte, MaxPlaintext)))
		}
		if !c.Owes() {
			t.Fatal("owes nothing behind the mark")
		}
		b, err := c.AppendOwed(nil)
		if err != nil {
			t.Fatal(err)
		}
		b = append(b, sealed(t, c, []byte("x"))...)
		b = back.wantRecord(t, b, 22, "\x18\x00\x00\x01\x00")
		back.update()
		back.wantRecord(t, b, 23, "x")

		client.Write.Seq = updateAfter - 1
		c = newConn(t, &client)
		many := make([]byte, Overhead*(recordLimit-updateAfter+2))
		var e *Error
		if err := c.SealEach(many, Overhead); !errors.As(err, &e) || e.Alert != InternalError || c.write.seq != updateAfter-1 {
			t.Errorf("a batch beyond the limit: %v, at record %d", err, c.write.seq)
		}
	})
}

// TestAskForPeersUpdate wants a peer that never changes its key to be asked to,
// once for each of its keys.
func TestAskForPeersUpdate(t *testing.T) {
	client, server := states(t, AES128GCM)
	client.Read.Seq, server.Write.Seq = updateAfter-1, updateAfter-1
	c, peer, back := newConn(t, &client), writer(&server), reader(&server)
	opened(t, c, peer.data("x"))
	b, err := c.AppendOwed(nil)
	if err != nil {
		t.Fatal(err)
	}
	back.wantRecord(t, b, 22, "\x18\x00\x00\x01\x01")
	back.update()
	opened(t, c, joined(peer.data("x"), peer.data("x")))
	if c.Owes() {
		t.Error("asks again")
	}
	opened(t, c, joined(peer.keyUpdate(0), peer.data("x")))
	c.read.seq, peer.seq = updateAfter, updateAfter
	opened(t, c, peer.data("x"))
	if !c.Owes() {
		t.Error("does not ask for the key after the next")
	}
}

// TestUpdatesAgainstCryptoTLS lets crypto/tls answer requests of ours in the middle of
// data both ways.
func TestUpdatesAgainstCryptoTLS(t *testing.T) {
	testkit.NoLeaks(t)
	for _, role := range []Role{Client, Server} {
		t.Run(role.String(), func(t *testing.T) {
			s, other := withTLS(t, role, config(t), config(t), gcm.Auto)
			echo := func(conn *tls.Conn) error {
				b := make([]byte, 64<<10)
				for range 10 {
					n, err := conn.Read(b)
					if err != nil {
						return err
					}
					if _, err := conn.Write(b[:n]); err != nil {
						return err
					}
				}
				return nil
			}
			done := make(chan error, 1)
			go func() { done <- echo(other) }()
			first := s.c.read.secret
			for i := range 10 {
				s.c.RequestUpdate(i%3 != 0)
				want := random(1000)
				if _, err := s.Write(want); err != nil {
					t.Fatal(err)
				}
				got := make([]byte, 0, len(want))
				for len(got) < len(want) {
					n, err := s.Read(got[len(got):cap(got)])
					if err != nil {
						t.Fatal(err)
					}
					got = got[:len(got)+n]
				}
				if !bytes.Equal(got, want) {
					t.Fatalf("exchange %d brought other bytes", i)
				}
			}
			if err := testkit.Receive(t, testkit.Wait, "echo", done); err != nil {
				t.Error(err)
			}
			if s.c.read.secret == first {
				t.Error("crypto/tls never changed its key")
			}
		})
	}
}
