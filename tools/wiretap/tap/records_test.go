package tap

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"net"
	"strings"
	"testing"
)

// record makes one.
func record(typ byte, body ...byte) []byte {
	b := []byte{typ, 3, 3}
	b = binary.BigEndian.AppendUint16(b, uint16(len(body)))
	return append(b, body...)
}

// message makes a handshake message.
func message(typ byte, body ...byte) []byte {
	return append([]byte{typ, 0, byte(len(body) >> 8), byte(len(body))}, body...)
}

// clientHelloBytes are what crypto/tls sends first.
func clientHelloBytes(t testing.TB, cfg *tls.Config) []byte {
	t.Helper()
	a, b := net.Pipe()
	defer b.Close()
	go func() {
		_ = tls.Client(a, cfg).Handshake() // it ends with the pipe
		a.Close()
	}()
	buf := make([]byte, 1<<14)
	n := 0
	for n < headerBytes || n < headerBytes+int(binary.BigEndian.Uint16(buf[3:])) {
		got, err := b.Read(buf[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += got
	}
	return buf[:n]
}

// serverHelloBody chooses a version; 0 leaves the extension out.
func serverHelloBody(random string, version uint16) []byte {
	b := append([]byte{3, 3}, random...)
	b = append(b, 0, 0x13, 0x01, 0)
	if version != 0 {
		b = append(b, 0, 6, 0, extVersions, 0, 2, byte(version>>8), byte(version))
	}
	return b
}

var (
	random32 = strings.Repeat("r", 32)
	data     = record(typeData, make([]byte, 40)...)
	changed  = record(typeCCS, 1)
)

func TestRecords(t *testing.T) {
	client := clientHelloBytes(t, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	sh := record(typeHandshake, message(typeServerHello, serverHelloBody(random32, tls13)...)...)
	retry := record(typeHandshake, message(typeServerHello, serverHelloBody(retryRandom, tls13)...)...)
	for _, tt := range []struct {
		name   string
		server bool
		in     [][]byte
		clear  int    // bytes
		why    string // of the first that is no TLS 1.3
		inside bool
	}{
		{"client", false, [][]byte{client, changed, data, data}, 0, "", false},
		{"server", true, [][]byte{sh, changed, data, data}, 0, "", false},
		{"retry", true, [][]byte{retry, changed, sh, data}, 0, "", false},
		{"two records, one hello", true, [][]byte{record(typeHandshake, message(typeServerHello, serverHelloBody(random32, tls13)...)[:7]...),
			record(typeHandshake, message(typeServerHello, serverHelloBody(random32, tls13)...)[7:]...), data}, 0, "", false},
		{"cut in a record", true, [][]byte{sh, data[:20]}, 0, "", true},
		{"cut in a header", true, [][]byte{sh, data[:3]}, 0, "", true},
		{"cut in a hello", true, [][]byte{record(typeHandshake, message(typeServerHello, serverHelloBody(random32, tls13)...)[:7]...)}, 0, "", true},
		{"HTTP", false, [][]byte{[]byte("GET / HTTP/1.1\r\n")}, 16, "byte 0: no TLS record: it begins with 47", false},
		{"HTTP/2 in the clear", false, [][]byte{[]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")}, 24, "no TLS record", false},
		{"clear behind records", true, [][]byte{sh, data, []byte("hello there")}, 11, "no TLS record: it begins with 68", false},
		{"a type like a record's", false, [][]byte{{22, 'a', 'b', 'c'}}, 4, "no TLS record: it begins with 16 61 62", false},
		{"certificate", true, [][]byte{sh, record(typeHandshake, message(11, 1, 2, 3, 4)...)}, 8, "message of type 11 (Certificate)", false},
		{"certificate behind a hello", true, [][]byte{record(typeHandshake, append(message(typeServerHello, serverHelloBody(random32, 0)...), message(11, 1)...)...)},
			len(message(typeServerHello, serverHelloBody(random32, 0)...)) + len(message(11, 1)), "(Certificate)", false},
		{"server's hello from the client", false, [][]byte{sh}, len(sh) - headerBytes, "message of type 2", false},
		{"alert", true, [][]byte{record(typeAlert, 2, 40)}, 7, "", false},
		{"long record", true, [][]byte{sh, {typeData, 3, 3, 0x42, 0}}, 5, "with 16896 bytes", false},
		{"longest record", true, [][]byte{sh, record(typeData, make([]byte, 1<<14+256)...)}, 0, "", false},
		{"short data", true, [][]byte{sh, record(typeData, make([]byte, 16)...)}, 21, "too short to be encrypted", false},
		{"empty handshake", true, [][]byte{record(typeHandshake)}, 5, "type 22 with 0 bytes", false},
		{"long change", true, [][]byte{sh, record(typeCCS, 1, 1)}, 7, "change_cipher_spec record with 2", false},
		{"another change", true, [][]byte{sh, record(typeCCS, 2)}, 1, "the byte 0x2", false},
		{"hello that can't be read", true, [][]byte{record(typeHandshake, message(typeServerHello, 3, 3)...)}, 6, "can't be read", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := bytes.Join(tt.in, nil)
			for _, step := range []int{len(all), 7, 1} {
				var sum [kinds]int
				r := &records{server: tt.server, count: func(k kind, n, _ int) { sum[k] += n }}
				for at := 0; at < len(all); at += step {
					r.add(all[at:min(at+step, len(all))], at)
				}
				if r.off != (tt.why != "") || !strings.Contains(r.why, tt.why) || !r.off && r.inside() != tt.inside {
					t.Errorf("by %d: off %t, %q, inside %t; want %q, %t", step, r.off, r.why, r.inside(), tt.why, tt.inside)
				}
				if step == len(all) && tt.clear != sum[clear] {
					t.Errorf("%d bytes are clear; want %d", sum[clear], tt.clear)
				}
				if got := sum[hello] + sum[sealed] + sum[clear] + len(r.head); got != len(all) {
					t.Errorf("by %d: %d bytes were counted; want %d", step, got, len(all))
				}
			}
		})
	}
}

func TestClientHello(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cfg   *tls.Config
		named bool
	}{
		{"no name", &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, CurvePreferences: []tls.CurveID{tls.X25519}}, false},
		{"name", &tls.Config{ServerName: "app.example", NextProtos: []string{"h2"}, CurvePreferences: []tls.CurveID{tls.X25519}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h, err := parseClientHello(clientHelloBytes(t, tt.cfg)[headerBytes+4:])
			if err != nil {
				t.Fatal(err)
			}
			if h.named != tt.named || h.named && h.name != "app.example" || strings.Join(h.alpn, " ") != "h2" ||
				h.versions[0] != tls13 || len(h.groups) != 1 || h.groups[0] != uint16(tls.X25519) || len(h.shares) != 1 || len(h.suites) == 0 {
				t.Errorf("hello %+v", h)
			}
		})
	}
}

func FuzzRecords(f *testing.F) {
	f.Add(false, uint8(3), clientHelloBytes(f, &tls.Config{ServerName: "a.example"}))
	f.Add(true, uint8(9), bytes.Join([][]byte{record(typeHandshake, message(typeServerHello, serverHelloBody(random32, tls13)...)...), changed, data}, nil))
	f.Add(true, uint8(1), []byte("HTTP/1.1 200 OK\r\n"))
	// However the bytes are cut, the verdict is the same, and every byte is counted.
	f.Fuzz(func(t *testing.T, server bool, step uint8, in []byte) {
		walk := func(step int) (*records, [kinds]int) {
			var sum [kinds]int
			r := &records{server: server, count: func(k kind, n, _ int) { sum[k] += n }}
			for at := 0; at < len(in); at += step {
				r.add(in[at:min(at+step, len(in))], 0)
			}
			return r, sum
		}
		whole, sum := walk(max(len(in), 1))
		if sum[hello]+sum[sealed]+sum[clear]+len(whole.head) != len(in) {
			t.Fatalf("counted %v and a header of %d; %d bytes came in", sum, len(whole.head), len(in))
		}
		cut, parts := walk(int(step) + 1)
		if cut.off != whole.off || !cut.off && (cut.records != whole.records || parts != sum || cut.inside() != whole.inside()) {
			t.Fatalf("whole: off %t, %v, %q; cut: off %t, %v, %q", whole.off, sum, whole.why, cut.off, parts, cut.why)
		}
	})
}
