package tlsrec

import (
	"bytes"
	"errors"
	"io"
	"math"
	"testing"
)

// ticket is the shortest legal NewSessionTicket message, with n bytes of ticket.
func ticket(n int) []byte {
	body := append(make([]byte, 8), 0, byte(n>>8), byte(n))
	body = append(body, make([]byte, n)...)
	body = append(body, 0, 0)
	return append([]byte{4, byte(len(body) >> 16), byte(len(body) >> 8), byte(len(body))}, body...)
}

// joined are byte slices in one.
func joined(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// TestReceivedRecords sends what a peer may and may not send. The names start with
// the section of RFC 8446 that says so.
func TestReceivedRecords(t *testing.T) {
	const ok = -1
	big := string(make([]byte, MaxPlaintext))
	for _, tt := range []struct {
		name  string
		role  Role // who receives
		send  func(r *reference) []byte
		want  string // data that is received
		alert int    // to be sent, or ok
	}{
		{"4.6 post-handshake CertificateRequest, not offered", Client, func(r *reference) []byte {
			return r.record(22, 13, 0, 0, 3, 0, 0, 0)
		}, "", 10},
		{"4.6 ClientHello after the handshake", Server, func(r *reference) []byte {
			return r.record(22, 1, 0, 0, 0)
		}, "", 10},
		{"4.6.1 NewSessionTicket is ignored", Client, func(r *reference) []byte {
			return joined(r.record(22, ticket(1)...), r.data("x"))
		}, "x", ok},
		{"4.6.1 the longest ticket, over records", Client, func(r *reference) []byte {
			m := append(make([]byte, 8), 255)
			m = append(m, make([]byte, 255)...)
			m = append(m, 0xff, 0xff)
			m = append(m, make([]byte, 1<<16-1)...)
			m = append(m, 0xff, 0xfe, 0, 42, 0xff, 0xfa)
			m = append(m, make([]byte, 1<<16-2-4)...)
			m = append([]byte{4, byte(len(m) >> 16), byte(len(m) >> 8), byte(len(m))}, m...)
			var b []byte
			for len(m) > 0 {
				n := min(len(m), MaxPlaintext)
				b = append(b, r.record(22, m[:n]...)...)
				m = m[n:]
			}
			return append(b, r.data("x")...)
		}, "x", ok},
		{"4.6.1 a ticket for a server", Server, func(r *reference) []byte {
			return r.record(22, ticket(1)...)
		}, "", 10},
		{"4.6.1 an empty ticket", Client, func(r *reference) []byte {
			return r.record(22, append([]byte{4, 0, 0, 14}, make([]byte, 14)...)...)
		}, "", 50},
		{"4.6.1 a ticket longer than its message", Client, func(r *reference) []byte {
			m := ticket(9)
			m[4+8+2]++
			return r.record(22, m...)
		}, "", 50},
		{"4.6.1 bytes behind the extensions of a ticket", Client, func(r *reference) []byte {
			m := append(ticket(9), 0)
			m[3]++
			return r.record(22, m...)
		}, "", 50},
		{"4.6.1 half an extension of a ticket", Client, func(r *reference) []byte {
			m := append(ticket(9), 0)
			m[3]++
			m[len(m)-2] = 1
			return r.record(22, m...)
		}, "", 50},
		{"4.6.1 a message longer than any ticket", Client, func(r *reference) []byte {
			return r.record(22, 4, 0xff, 0xff, 0xff)
		}, "", 50},
		{"4.6.3 KeyUpdate", Server, func(r *reference) []byte {
			return joined(r.data("a"), r.keyUpdate(0), r.data("b"), r.keyUpdate(0), r.keyUpdate(0), r.data("c"))
		}, "abc", ok},
		{"4.6.3 KeyUpdate with an unknown request", Server, func(r *reference) []byte {
			return r.keyUpdate(2)
		}, "", 47},
		{"4.6.3 KeyUpdate without a body", Server, func(r *reference) []byte {
			return r.record(22, 24, 0, 0, 0)
		}, "", 50},
		{"4.6.3 KeyUpdate with too much of a body", Server, func(r *reference) []byte {
			return r.record(22, 24, 0, 0, 2, 0, 0)
		}, "", 50},
		{"4.6.3 old keys after KeyUpdate", Server, func(r *reference) []byte {
			return joined(r.record(22, 24, 0, 0, 1, 0), r.data("x"))
		}, "", 20},
		{"5 change_cipher_spec after the handshake", Client, func(r *reference) []byte {
			return joined(r.data("x"), []byte{20, 3, 3, 0, 1, 1})
		}, "x", 10},
		{"5 protected change_cipher_spec", Client, func(r *reference) []byte {
			return r.record(20, 1)
		}, "", 10},
		{"5 unprotected data", Client, func(r *reference) []byte {
			return []byte{23, 3, 3, 0, 1, 'x'}
		}, "", 20},
		{"5 unprotected alert", Client, func(r *reference) []byte {
			return []byte{21, 3, 3, 0, 2, 1, 0}
		}, "", 10},
		{"5 unprotected handshake message", Client, func(r *reference) []byte {
			return []byte{22, 3, 3, 0, 5, 24, 0, 0, 1, 0}
		}, "", 10},
		{"5 unknown type outside", Client, func(r *reference) []byte {
			return r.innerAs([]byte{'x', 23}, 24, 0x0303)
		}, "", 10},
		{"5 unknown type inside", Client, func(r *reference) []byte {
			return r.record(24, 'x')
		}, "", 10},
		{"5 type 0 inside is none", Client, func(r *reference) []byte {
			return r.inner([]byte{0})
		}, "", 10},
		{"5.1 version is ignored", Client, func(r *reference) []byte {
			return joined(r.innerAs([]byte{'a', 23}, 23, 0x0301), r.innerAs([]byte{'b', 23}, 23, 0xffff))
		}, "ab", ok},
		{"5.1 version changed on the way", Client, func(r *reference) []byte {
			b := r.data("x")
			b[2] = 1
			return b
		}, "", 20},
		{"5.1 a message in two records", Client, func(r *reference) []byte {
			m := ticket(100)
			return joined(r.record(22, m[:50]...), r.record(22, m[50:]...), r.data("x"))
		}, "x", ok},
		{"5.1 a message byte by byte", Client, func(r *reference) []byte {
			var b []byte
			for _, c := range ticket(100) {
				b = append(b, r.record(22, c)...)
			}
			return append(b, r.data("x")...)
		}, "x", ok},
		{"5.1 two messages and a half in a record", Client, func(r *reference) []byte {
			m := joined(ticket(1), ticket(2), ticket(3))
			return joined(r.record(22, m[:len(m)-9]...), r.record(22, m[len(m)-9:]...), r.data("x"))
		}, "x", ok},
		{"5.1 KeyUpdate byte by byte", Server, func(r *reference) []byte {
			b := joined(r.record(22, 24), r.record(22, 0), r.record(22, 0), r.record(22, 1), r.record(22, 0))
			r.update()
			return append(b, r.data("x")...)
		}, "x", ok},
		{"5.1 a ticket, then KeyUpdate, in a record", Client, func(r *reference) []byte {
			b := r.record(22, append(ticket(7), 24, 0, 0, 1, 0)...)
			r.update()
			return append(b, r.data("x")...)
		}, "x", ok},
		{"5.1 KeyUpdate does not end its record", Client, func(r *reference) []byte {
			return r.record(22, append([]byte{24, 0, 0, 1, 0}, ticket(7)...)...)
		}, "", 10},
		{"5.1 half a message behind KeyUpdate", Client, func(r *reference) []byte {
			return r.record(22, 24, 0, 0, 1, 0, 24)
		}, "", 10},
		{"5.1 data in the middle of a message", Client, func(r *reference) []byte {
			m := ticket(100)
			return joined(r.record(22, m[:50]...), r.data("x"), r.record(22, m[50:]...))
		}, "", 10},
		{"5.1 alert in the middle of a message", Client, func(r *reference) []byte {
			return joined(r.record(22, 4, 0), r.record(21, 1, 0))
		}, "", 10},
		{"5.1 empty handshake record", Client, func(r *reference) []byte {
			return r.record(22)
		}, "", 10},
		{"5.1 empty handshake record with padding", Client, func(r *reference) []byte {
			return r.inner([]byte{22, 0, 0})
		}, "", 10},
		{"5.1 empty alert", Client, func(r *reference) []byte {
			return r.record(21)
		}, "", 10},
		{"5.1 half an alert", Client, func(r *reference) []byte {
			return r.record(21, 2)
		}, "", 50},
		{"5.1 two alerts in a record", Client, func(r *reference) []byte {
			return r.record(21, 1, 0, 1, 0)
		}, "", 50},
		{"5.1 empty data", Client, func(r *reference) []byte {
			return joined(r.record(23), r.data("a"), r.record(23), r.inner([]byte{23, 0, 0, 0}), r.data("b"))
		}, "ab", ok},
		{"5.1 the most data", Client, func(r *reference) []byte {
			return r.data(big)
		}, big, ok},
		{"5.2 a byte more of data than is legal", Client, func(r *reference) []byte {
			return r.data(big + "x")
		}, "", 22},
		{"5.2 the longest record, all data", Client, func(r *reference) []byte {
			return r.inner(append(make([]byte, maxCiphertext-16-1), 23))
		}, "", 22},
		{"5.2 a byte longer than the longest record", Client, func(r *reference) []byte {
			return joined(r.data("a"), []byte{23, 3, 3, maxCiphertext >> 8, maxCiphertext&0xff + 1})
		}, "a", 22},
		{"5.2 record too short for a tag", Client, func(r *reference) []byte {
			return append([]byte{23, 3, 3, 0, 15}, make([]byte, 15)...)
		}, "", 20},
		{"5.2 empty record", Client, func(r *reference) []byte {
			return []byte{23, 3, 3, 0, 0}
		}, "", 20},
		{"5.2 a record that holds a tag only", Client, func(r *reference) []byte {
			return r.inner(nil)
		}, "", 10},
		{"5.2 a bit of the tag flipped", Client, func(r *reference) []byte {
			b := r.data("x")
			b[len(b)-1] ^= 1
			return b
		}, "", 20},
		{"5.2 a bit of the data flipped", Client, func(r *reference) []byte {
			b := r.data("x")
			b[HeaderLen] ^= 0x80
			return b
		}, "", 20},
		{"5.3 a record left out", Client, func(r *reference) []byte {
			a := r.data("a")
			r.data("left out")
			return joined(a, r.data("b"))
		}, "a", 20},
		{"5.3 a record again", Client, func(r *reference) []byte {
			a := r.data("a")
			return joined(a, a)
		}, "a", 20},
		{"5.3 records in another order", Client, func(r *reference) []byte {
			a := r.data("a")
			return joined(r.data("b"), a)
		}, "", 20},
		{"5.4 padding", Client, func(r *reference) []byte {
			return joined(r.inner([]byte{'a', 23, 0}), r.inner(append([]byte{0, 'b', 0, 23}, make([]byte, 1000)...)))
		}, "a\x00b\x00", ok},
		{"5.4 padding up to the longest plaintext", Client, func(r *reference) []byte {
			return r.inner(append([]byte{'x', 23}, make([]byte, MaxPlaintext-1)...))
		}, "x", ok},
		{"5.4 padding beyond the longest plaintext", Client, func(r *reference) []byte {
			return r.inner(append([]byte{'x', 23}, make([]byte, MaxPlaintext)...))
		}, "", 22},
		{"5.4 nothing but padding", Client, func(r *reference) []byte {
			return r.inner(make([]byte, 100))
		}, "", 10},
		{"5.4 alert with padding", Client, func(r *reference) []byte {
			return r.inner([]byte{1, 0, 21, 0, 0})
		}, "", ok},
		{"6.1 data behind close_notify is ignored", Server, func(r *reference) []byte {
			return joined(r.data("a"), r.record(21, 1, 0), r.data("b"), []byte("garbage"))
		}, "a", ok},
		{"6.1 close_notify of fatal level", Server, func(r *reference) []byte {
			return joined(r.data("a"), r.record(21, 2, 0))
		}, "a", ok},
		{"6.1 user_canceled, then close_notify", Server, func(r *reference) []byte {
			return joined(r.record(21, 1, 90), r.record(21, 1, 0))
		}, "", ok},
		{"D.1 a flood of empty records", Server, func(r *reference) []byte {
			var b []byte
			for range maxIdle + 1 {
				b = append(b, r.record(23)...)
			}
			return b
		}, "", 10},
		{"D.1 as many empty records as are taken", Server, func(r *reference) []byte {
			var b []byte
			for range 3 {
				for range maxIdle {
					b = append(b, r.record(23)...)
				}
				b = append(b, r.data("x")...)
			}
			return b
		}, "xxx", ok},
		{"D.1 a flood of KeyUpdates", Server, func(r *reference) []byte {
			var b []byte
			for range maxIdle + 1 {
				b = append(b, r.keyUpdate(1)...)
			}
			return b
		}, "", 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, s := range Suites() {
				client, server := states(t, s)
				to, from := &client, &server
				if tt.role == Server {
					to, from = from, to
				}
				wire := tt.send(writer(from))
				got, err := tryOpen(newConn(t, to), wire)
				if string(got) != tt.want {
					t.Errorf("%v: received %d bytes, %.20q; want %d, %.20q", s, len(got), got, len(tt.want), tt.want)
				}
				var e *Error
				switch {
				case tt.alert == ok:
					if err != nil && !errors.Is(err, io.EOF) {
						t.Errorf("%v: %v", s, err)
					}
				case !errors.As(err, &e) || e.Remote || int(e.Alert) != tt.alert:
					t.Errorf("%v: got %v; want alert %v", s, err, Alert(tt.alert))
				}
			}
		})
	}
}

// TestAlertsReceived wants each alert of section 6.2 to end the connection, as an
// error that names it, whatever its level.
func TestAlertsReceived(t *testing.T) {
	for a := range 256 {
		if a := Alert(a); a == CloseNotify || a == UserCanceled {
			continue
		}
		for _, level := range []byte{1, 2, 3} {
			client, server := states(t, AES128GCM)
			c := newConn(t, &client)
			wire := writer(&server).record(21, level, byte(a))
			_, err := tryOpen(c, wire)
			var e *Error
			if !errors.As(err, &e) || !e.Remote || e.Alert != Alert(a) {
				t.Fatalf("alert %d of level %d: %v", a, level, err)
			}
			if _, again := tryOpen(c, []byte{23}); !errors.Is(again, err) {
				t.Fatalf("the error was not for good: %v", again)
			}
		}
	}
}

// TestAlertsSent wants the level that section 6 asks for, and nothing behind the
// alert.
func TestAlertsSent(t *testing.T) {
	for a, level := range map[Alert]byte{CloseNotify: 1, UserCanceled: 1, UnexpectedMessage: 2, BadRecordMAC: 2, InternalError: 2} {
		client, server := states(t, ChaCha20Poly1305)
		c := newConn(t, &client)
		b, err := c.AppendAlert([]byte("before"), a)
		if err != nil || len(b) != len("before")+AlertLen {
			t.Fatalf("%v: %d bytes, %v", a, len(b), err)
		}
		reader(&server).wantRecord(t, b[len("before"):], 21, string([]byte{level, byte(a)}))
		c.RequestUpdate(true)
		if _, err := c.AppendAlert(nil, a); !errors.Is(err, ErrClosed) {
			t.Errorf("%v again: %v", a, err)
		}
		if _, err := c.SealTo(make([]byte, 100), []byte("x")); !errors.Is(err, ErrClosed) {
			t.Errorf("data behind %v: %v", a, err)
		}
		if b, err := c.AppendOwed(nil); len(b) > 0 || err != nil || c.Owes() {
			t.Errorf("KeyUpdate behind %v: %x, %v", a, b, err)
		}
	}
}

// TestPartialRecords feeds records in all cuts and wants Missing to be right.
func TestPartialRecords(t *testing.T) {
	client, server := states(t, AES256GCM)
	wire := joined(writer(&server).data("hello"), writer(&State{Suite: AES256GCM, Write: Direction{Secret: server.Write.Secret, Seq: 1}}).data("world"))
	first := len(wire) / 2
	for cut := range len(wire) {
		c := newConn(t, &client)
		b := bytes.Clone(wire)
		got, n, err := c.Open(b[:cut], make([][]byte, 0, 4))
		if err != nil || n != cut/first*first || len(got) != cut/first {
			t.Fatalf("cut at %d: %d payloads, %d bytes, %v", cut, len(got), n, err)
		}
		missing := first - cut%first
		if cut%first < HeaderLen {
			missing = HeaderLen - cut%first
		}
		if m := Missing(b[n:cut]); m != missing {
			t.Fatalf("cut at %d: %d missing; want %d", cut, m, missing)
		}
		rest := opened(t, c, b[n:])
		if all := string(bytes.Join(got, nil)) + string(rest); cut < first && all != "helloworld" {
			t.Fatalf("cut at %d: %q", cut, all)
		}
	}
	if m := Missing([]byte{20, 3, 3, 0, 1}); m != 0 {
		t.Errorf("%d missing of a record that is refused", m)
	}
}

// TestRoomForPayloads wants Open to stop when out is full and go on from there.
func TestRoomForPayloads(t *testing.T) {
	client, server := states(t, AES128GCM)
	r := writer(&server)
	wire := joined(r.data("a"), r.record(23), r.data("b"), r.keyUpdate(0), r.data("c"))
	c := newConn(t, &client)
	var got []byte
	for range 3 {
		payloads, n, err := c.Open(wire, make([][]byte, 0, 1))
		if err != nil || len(payloads) != 1 {
			t.Fatalf("%d payloads, %v", len(payloads), err)
		}
		got = append(got, payloads[0]...)
		wire = wire[n:]
	}
	if string(got) != "abc" || len(wire) > 0 {
		t.Errorf("got %q, %d bytes left", got, len(wire))
	}
	if payloads, n, err := c.Open(r.data("d"), nil); len(payloads) != 0 || n != 0 || err != nil {
		t.Errorf("without room: %d payloads, %d bytes, %v", len(payloads), n, err)
	}
}

// TestSequenceNumbers wants them used up to the last one and never again (RFC 8446
// 5.3), in both directions.
func TestSequenceNumbers(t *testing.T) {
	forSuites(t, func(t *testing.T, s Suite) {
		client, server := states(t, s)
		client.Read.Seq, server.Write.Seq = math.MaxUint64-1, math.MaxUint64-1
		client.asked = true
		c, r := newConn(t, &client), writer(&server)
		if got := opened(t, c, r.data("last")); string(got) != "last" {
			t.Errorf("got %q", got)
		}
		_, err := tryOpen(c, r.data("one too many"))
		var e *Error
		if !errors.As(err, &e) || e.Alert != InternalError {
			t.Errorf("a record too many: %v", err)
		}
		// Our own never get that far, but the code does not count on it.
		server.Write.Seq = math.MaxUint64
		w := newConn(t, &server)
		if _, err := w.AppendAlert(nil, CloseNotify); err == nil {
			t.Error("sealed a record without a number")
		}
		if _, err := w.AppendOwed(nil); err == nil {
			t.Error("sealed a KeyUpdate without a number")
		}
		if _, err := w.SealTo(make([]byte, 100), []byte("x")); err == nil {
			t.Error("sealed data without a number")
		}
		if w.write.seq != math.MaxUint64 {
			t.Errorf("the number is now %d", w.write.seq)
		}
	})
}
