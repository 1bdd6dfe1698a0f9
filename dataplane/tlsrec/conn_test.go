package tlsrec

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/gcm"
)

// states returns the states of both sides of a fresh connection.
func states(t testing.TB, s Suite) (client, server State) {
	t.Helper()
	client = State{Role: Client, Suite: s}
	rand.Read(client.Read.Secret[:s.secretLen()])
	rand.Read(client.Write.Secret[:s.secretLen()])
	server = State{Role: Server, Suite: s, Read: client.Write, Write: client.Read}
	return client, server
}

// newConn is NewConn with the best cipher.
func newConn(t testing.TB, s *State) *Conn {
	t.Helper()
	c, err := NewConn(s, gcm.Auto)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Destroy)
	return c
}

// pair returns both sides of a fresh connection.
func pair(t testing.TB, s Suite) (client, server *Conn) {
	t.Helper()
	a, b := states(t, s)
	return newConn(t, &a), newConn(t, &b)
}

// sealed returns p sealed by c.
func sealed(t testing.TB, c *Conn, p []byte) []byte {
	t.Helper()
	b := make([]byte, SealedLen(len(p)))
	if _, err := c.SealTo(b, p); err != nil {
		t.Fatal(err)
	}
	return b
}

// opened opens all of b, wants nothing left of it, and returns the payloads in one.
func opened(t testing.TB, c *Conn, b []byte) []byte {
	t.Helper()
	got, err := tryOpen(c, b)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func tryOpen(c *Conn, b []byte) (got []byte, err error) {
	var room [4][]byte
	for len(b) > 0 {
		payloads, n, err := c.Open(b, room[:0])
		for _, p := range payloads {
			got = append(got, p...)
		}
		if err != nil {
			return got, err
		}
		if n == 0 {
			return got, fmt.Errorf("%d bytes left, %d missing", len(b), Missing(b))
		}
		b = b[n:]
	}
	return got, nil
}

func forSuites(t *testing.T, fn func(t *testing.T, s Suite)) {
	for _, s := range Suites() {
		t.Run(s.String(), func(t *testing.T) { fn(t, s) })
	}
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

// TestSealLayouts seals the same bytes in the three ways and wants the same
// records, which open to the bytes.
func TestSealLayouts(t *testing.T) {
	forSuites(t, func(t *testing.T, s Suite) {
		for _, n := range []int{1, 2, 15, 16, 17, 100, MaxPlaintext - 1, MaxPlaintext, MaxPlaintext + 1, 3*MaxPlaintext + 100} {
			clientState, serverState := states(t, s)
			plain := random(n)
			want := sealed(t, newConn(t, &clientState), plain)

			laid := make([]byte, 0, len(want))
			for rest := plain; len(rest) > 0; {
				p := min(len(rest), MaxPlaintext)
				laid = append(laid, make([]byte, HeaderLen)...)
				laid = append(laid, rest[:p]...)
				laid = append(laid, make([]byte, TrailerLen)...)
				rest = rest[p:]
			}
			one := bytes.Clone(laid)
			if err := newConn(t, &clientState).SealEach(laid, MaxSealed); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(laid, want) {
				t.Errorf("%d bytes: SealEach and SealTo differ", n)
			}
			c := newConn(t, &clientState)
			for b := one; len(b) > 0; {
				size, err := c.Seal(b, min(len(b), MaxSealed)-Overhead)
				if err != nil {
					t.Fatal(err)
				}
				b = b[size:]
			}
			if !bytes.Equal(one, want) {
				t.Errorf("%d bytes: Seal and SealTo differ", n)
			}
			if got := opened(t, newConn(t, &serverState), want); !bytes.Equal(got, plain) {
				t.Errorf("%d bytes did not open to what was sealed", n)
			}
		}
	})
}

// TestClose wants EOF behind the data, and nothing sealed behind the alert.
func TestClose(t *testing.T) {
	client, server := pair(t, AES128GCM)
	b := sealed(t, client, []byte("last words"))
	b, err := client.AppendAlert(b, CloseNotify)
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, "ignored"...)
	payloads, n, err := server.Open(b, make([][]byte, 0, 4))
	if !errors.Is(err, io.EOF) || n != len(b) || len(payloads) != 1 || string(payloads[0]) != "last words" {
		t.Errorf("got %q, %d, %v; want the data, %d, EOF", payloads, n, err, len(b))
	}
	if _, err := client.Seal(make([]byte, Overhead+1), 1); !errors.Is(err, ErrClosed) {
		t.Errorf("seal after close_notify: %v", err)
	}
	if got := opened(t, client, sealed(t, server, []byte("still here"))); string(got) != "still here" {
		t.Errorf("the other direction carried %q", got)
	}
}
