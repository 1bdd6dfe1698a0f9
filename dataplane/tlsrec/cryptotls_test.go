package tlsrec

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"testing"
	"time"
)

// A recorded connection is a pipe until it is cut; then it has what is in in, and
// keeps what is written in out.
type recorded struct {
	net.Conn
	cut     bool
	in, out bytes.Buffer
}

func (r *recorded) Read(p []byte) (int, error) {
	if !r.cut {
		return r.Conn.Read(p)
	}
	if r.in.Len() == 0 {
		return 0, errWireEnds
	}
	return r.in.Read(p)
}

// errWireEnds is not io.EOF, which crypto/tls takes for close_notify.
var errWireEnds = errors.New("no more here")

func (r *recorded) Write(p []byte) (int, error) {
	if !r.cut {
		return r.Conn.Write(p)
	}
	return r.out.Write(p)
}

// quickConfig is for handshakes that take little time.
func quickConfig(t testing.TB) *tls.Config {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{
		Certificates:       []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519},
	}
}

// cryptoTLS shakes hands with itself and returns the side of role, cut off, and the
// state of a Conn that takes its place.
func cryptoTLS(t testing.TB, cfg *tls.Config, role Role) (*tls.Conn, *recorded, State) {
	t.Helper()
	var keys keyLog
	a, b := net.Pipe()
	client, server := &recorded{Conn: a}, &recorded{Conn: b}
	c, s := tls.Client(client, withKeys(cfg, &keys)), tls.Server(server, withKeys(cfg, new(keyLog)))
	done := make(chan error, 1)
	go func() { done <- s.Handshake() }()
	if err := errors.Join(c.Handshake(), <-done); err != nil {
		t.Fatal(err)
	}
	st, err := keys.state(role, Suite(c.ConnectionState().CipherSuite))
	if err != nil {
		t.Fatal(err)
	}
	if role == Client {
		client.cut = true
		return c, client, st
	}
	server.cut = true
	return s, server, st
}

// An outcome is what a side made of what it was sent.
type outcome struct {
	data string
	end  string // "", "EOF", "peer sent N" or "refused"
}

func (o outcome) String() string { return fmt.Sprintf("%d bytes, end %q", len(o.data), o.end) }

// theirOutcome lets crypto/tls read wire; st says how to read what it answers.
func theirOutcome(t testing.TB, conn *tls.Conn, r *recorded, st *State, wire []byte) outcome {
	t.Helper()
	r.in.Write(wire)
	data, err := io.ReadAll(conn)
	o := outcome{data: string(data)}
	switch remote := new(net.OpError); {
	case errors.As(err, &remote) && remote.Op == "remote error":
		o.end = "peer sent " + fmt.Sprint(int(remoteAlert(remote)))
		return o
	case err == nil:
		o.end = "EOF"
	case !errors.Is(err, errWireEnds):
		o.end = "refused"
	}
	answer := writer(st)
	for rest := r.out.Bytes(); len(rest) > 0; {
		typ, content, more, err := answer.open(rest)
		if err != nil {
			t.Fatalf("answer of crypto/tls: %v", err)
		}
		switch {
		case typ == 21:
			o.end = "refused"
		case typ == 22 && content[0] == 24:
			answer.update()
		}
		rest = more
	}
	return o
}

// remoteAlert is the number in crypto/tls's error for an alert.
func remoteAlert(err *net.OpError) Alert {
	for a := range 256 {
		if err.Err.Error() == tls.AlertError(a).Error() {
			return Alert(a)
		}
	}
	return 0
}

// ourOutcome lets a Conn read wire.
func ourOutcome(t testing.TB, c *Conn, wire []byte) outcome {
	t.Helper()
	var (
		o    outcome
		room [3][]byte
	)
	for {
		payloads, n, err := c.Open(wire, room[:0])
		for _, p := range payloads {
			o.data += string(p)
		}
		var e *Error
		switch {
		case errors.Is(err, io.EOF):
			o.end = "EOF"
			return o
		case errors.As(err, &e) && e.Remote:
			o.end = "peer sent " + fmt.Sprint(int(e.Alert))
			return o
		case err != nil:
			o.end = "refused"
			return o
		case n == 0:
			return o
		}
		wire = wire[n:]
	}
}

// A script is read byte by byte; behind its end it is all zero.
type script []byte

func (s *script) next() int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b)
}

// records writes at most 14 steps of a peer, honest or not, so that neither side
// counts too many without data.
func (s *script) records(r *reference, toClient bool) []byte {
	var b []byte
	for range 14 {
		if len(*s) == 0 {
			break
		}
		op, arg := s.next(), s.next()
		switch op % 16 {
		case 0, 1, 2:
			b = append(b, r.record(23, make([]byte, arg*arg/4)...)...)
		case 3: // padding
			b = append(b, r.inner(append([]byte{'p', 23}, make([]byte, arg*64)...))...)
		case 4: // around the most that is legal
			b = append(b, r.record(23, make([]byte, MaxPlaintext+arg%5-2)...)...)
		case 5:
			b = append(b, r.keyUpdate(byte(arg%2))...)
		case 6:
			if toClient {
				b = append(b, r.record(22, ticket(arg+1)...)...)
			}
		case 7: // a message in two records
			m := []byte{24, 0, 0, 1, 0}
			if toClient && arg%2 == 0 {
				m = ticket(arg + 1)
			}
			cut := 1 + arg%(len(m)-1)
			b = append(b, r.record(22, m[:cut]...)...)
			b = append(b, r.record(22, m[cut:]...)...)
			if m[0] == 24 {
				r.update()
			}
		case 8: // an alert
			b = append(b, r.record(21, 1+byte(arg&1), byte(s.next()))...)
		case 9: // some other message
			if t := byte(arg); t != 4 && t != 24 {
				b = append(b, r.record(22, t, 0, 0, 0)...)
			}
		case 10: // some other type; crypto/tls waits for the rest of any message
			if t := byte(arg); t != 22 {
				b = append(b, r.record(t, 'x')...)
			}
		case 11: // some other type outside; change_cipher_spec is ignored by crypto/tls
			if t := byte(arg); t != 20 && t != 23 {
				b = append(b, r.innerAs([]byte{'x', 23}, t, 0x0303)...)
			}
		case 12: // something changed
			rec := r.data("changed")
			rec[HeaderLen+arg%(len(rec)-HeaderLen)] ^= 1 << (arg / 32)
			b = append(b, rec...)
		case 13: // half a record; crypto/tls looks at versions, so not half a header
			rec := r.data("cut off")
			b = append(b, rec[:HeaderLen+arg%(len(rec)-HeaderLen)]...)
		case 14: // KeyUpdate with something behind it
			b = append(b, r.record(22, append([]byte{24, 0, 0, 1, 0}, make([]byte, arg%3)...)...)...)
			r.update()
		case 15:
			r.seq += uint64(arg % 2)
			b = append(b, r.record(23)...)
		}
	}
	return b
}

// ours lets c do at most 14 steps and returns the records and the data in them.
func (s *script) ours(t testing.TB, c *Conn) (wire, data []byte) {
	for range 14 {
		if len(*s) == 0 {
			break
		}
		op, arg := s.next(), s.next()
		if c.Owes() {
			var err error
			if wire, err = c.AppendOwed(wire); err != nil {
				t.Fatal(err)
			}
		}
		switch n := arg*arg + 1; op % 4 {
		case 0:
			p := random(n)
			wire, data = append(wire, sealed(t, c, p)...), append(data, p...)
		case 1:
			c.RequestUpdate(arg%2 == 1)
		default: // records of the same size
			size := Overhead + 1 + arg*op%MaxPlaintext
			b := random(min(3, 1+arg%4)*size - arg%7*min(1, size-2*Overhead-7))
			if last := len(b) % size; last != 0 && last < Overhead {
				continue
			}
			for rest := b; len(rest) > 0; rest = rest[min(size, len(rest)):] {
				data = append(data, rest[HeaderLen:min(size, len(rest))-TrailerLen]...)
			}
			if err := c.SealEach(b, size); err != nil {
				t.Fatal(err)
			}
			wire = append(wire, b...)
		}
	}
	return wire, data
}

// FuzzAgainstCryptoTLS sends the same records to a Conn and to crypto/tls, and
// records of a Conn to crypto/tls, and what that answers back.
func FuzzAgainstCryptoTLS(f *testing.F) {
	f.Add(true, []byte{0, 10, 4, 3, 5, 1, 6, 50, 7, 20, 3, 200, 0, 7, 8, 0, 0})
	f.Add(false, []byte{5, 0, 7, 3, 5, 1, 0, 255, 8, 1, 90, 10, 20})
	f.Add(true, []byte{9, 13})
	f.Add(false, []byte{14, 1})
	f.Add(true, []byte{13, 20, 0, 1})
	cfg := quickConfig(f)
	f.Fuzz(func(t *testing.T, client bool, steps []byte) {
		role := Server
		if client {
			role = Client
		}
		s := script(bytes.Clone(steps))
		conn, rec, st := cryptoTLS(t, cfg, role)
		c := newConn(t, &st)
		wire := s.records(&reference{suite: st.Suite, secret: secretOf(st.Suite, &st.Read)}, client)
		theirs := theirOutcome(t, conn, rec, &st, wire)
		if ours := ourOutcome(t, c, wire); ours != theirs {
			t.Fatalf("we: %v; crypto/tls: %v", ours, theirs)
		}

		// The other side, which is crypto/tls, reads what we seal.
		other := Client
		if client {
			other = Server
		}
		conn, rec, st = cryptoTLS(t, cfg, other)
		mine := State{Role: role, Suite: st.Suite, Read: st.Write, Write: st.Read}
		s, c = steps, newConn(t, &mine)
		wire, want := s.ours(t, c)
		wire, err := c.AppendAlert(wire, CloseNotify)
		if err != nil {
			t.Fatal(err)
		}
		rec.in.Write(wire)
		got, err := io.ReadAll(conn)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("crypto/tls read %d bytes, %v; want %d", len(got), err, len(want))
		}
		if _, err := conn.Write([]byte("answer")); err != nil {
			t.Fatal(err)
		}
		if got := opened(t, c, rec.out.Bytes()); string(got) != "answer" {
			t.Fatalf("we read %q", got)
		}
	})
}
