package tlsrec

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"testing"

	"golang.org/x/crypto/chacha20poly1305"
)

// A reference seals and opens records as RFC 8446 describes it, step by step, and
// can do what no honest peer does. It shares no code with what is tested.
type reference struct {
	suite  Suite
	secret []byte
	seq    uint64
}

// writer is the reference for what the side with state s sends.
func writer(s *State) *reference {
	return &reference{suite: s.Suite, secret: secretOf(s.Suite, &s.Write), seq: s.Write.Seq}
}

// reader is the reference for what the side with state s receives.
func reader(s *State) *reference {
	return &reference{suite: s.Suite, secret: secretOf(s.Suite, &s.Read), seq: s.Read.Seq}
}

func secretOf(s Suite, d *Direction) []byte {
	if s == AES256GCM {
		return append([]byte(nil), d.Secret[:48]...)
	}
	return append([]byte(nil), d.Secret[:32]...)
}

// hkdf is HKDF-Expand-Label with an empty context (RFC 8446 7.1), by RFC 5869.
func (r *reference) hkdf(label string, n int) []byte {
	newHash := sha256.New
	if r.suite == AES256GCM {
		newHash = sha512.New384
	}
	info := []byte{byte(n >> 8), byte(n), byte(6 + len(label))}
	info = append(info, "tls13 "+label...)
	info = append(info, 0)
	var out, block []byte
	for i := byte(1); len(out) < n; i++ {
		mac := hmac.New(newHash, r.secret)
		mac.Write(block)
		mac.Write(info)
		mac.Write([]byte{i})
		block = mac.Sum(nil)
		out = append(out, block...)
	}
	return out[:n]
}

func (r *reference) aead() cipher.AEAD {
	if r.suite == ChaCha20Poly1305 {
		c, err := chacha20poly1305.New(r.hkdf("key", 32))
		if err != nil {
			panic(err)
		}
		return c
	}
	n := 16
	if r.suite == AES256GCM {
		n = 32
	}
	block, err := aes.NewCipher(r.hkdf("key", n))
	if err != nil {
		panic(err)
	}
	c, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return c
}

func (r *reference) nonce() []byte {
	n := r.hkdf("iv", 12)
	for i, b := range binary.BigEndian.AppendUint64(nil, r.seq) {
		n[4+i] ^= b
	}
	r.seq++
	return n
}

// inner seals a whole TLSInnerPlaintext.
func (r *reference) inner(b []byte) []byte { return r.innerAs(b, 23, 0x0303) }

// innerAs does so with another type and version in the header.
func (r *reference) innerAs(b []byte, outer byte, version uint16) []byte {
	n := len(b) + 16
	header := []byte{outer, byte(version >> 8), byte(version), byte(n >> 8), byte(n)}
	return r.aead().Seal(header, r.nonce(), b, header)
}

// record seals content of type t.
func (r *reference) record(t byte, content ...byte) []byte {
	return r.inner(append(append([]byte(nil), content...), t))
}

// data seals application data.
func (r *reference) data(s string) []byte { return r.record(23, []byte(s)...) }

// update goes on to the next secret.
func (r *reference) update() {
	r.secret = r.hkdf("traffic upd", len(r.secret))
	r.seq = 0
}

// keyUpdate seals a KeyUpdate and goes on to the next secret.
func (r *reference) keyUpdate(request byte) []byte {
	b := r.record(22, 24, 0, 0, 1, request)
	r.update()
	return b
}

// open opens the record that starts b, and returns its type, what it holds, and
// what is behind it.
func (r *reference) open(b []byte) (t byte, content, rest []byte, err error) {
	if len(b) < 5 || len(b) < 5+int(binary.BigEndian.Uint16(b[3:])) {
		return 0, nil, nil, errors.New("record is not whole")
	}
	n := 5 + int(binary.BigEndian.Uint16(b[3:]))
	inner, err := r.aead().Open(nil, r.nonce(), b[5:n], b[:5])
	if err != nil {
		return 0, nil, nil, err
	}
	for len(inner) > 0 && inner[len(inner)-1] == 0 {
		inner = inner[:len(inner)-1]
	}
	if len(inner) == 0 {
		return 0, nil, nil, errors.New("record without a type")
	}
	return inner[len(inner)-1], inner[:len(inner)-1], b[n:], nil
}

// wantRecord opens the record that starts b, wants type and content, and returns
// what is behind it.
func (r *reference) wantRecord(t testing.TB, b []byte, typ byte, content string) []byte {
	t.Helper()
	gotType, got, rest, err := r.open(b)
	if err != nil || gotType != typ || string(got) != content {
		t.Fatalf("sent %q of type %d, %v; want %q of type %d", got, gotType, err, content, typ)
	}
	return rest
}

// TestSealLikeReference wants what is sealed to be what RFC 8446 describes, for all
// suites.
func TestSealLikeReference(t *testing.T) {
	forSuites(t, func(t *testing.T, s Suite) {
		client, server := states(t, s)
		c, ref := newConn(t, &client), reader(&server)
		for _, n := range []int{1, 2, 100, 4096, MaxPlaintext} {
			plain := string(random(n))
			if rest := ref.wantRecord(t, sealed(t, c, []byte(plain)), 23, plain); len(rest) > 0 {
				t.Errorf("%d bytes behind a record of %d", len(rest), n)
			}
		}
	})
}
