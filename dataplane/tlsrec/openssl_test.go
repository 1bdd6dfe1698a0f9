package tlsrec

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/gcm"
)

// capture writes what openssl sent to a side in state st, whose data was data.
func capture(t testing.TB, role Role, st *State, wire []byte, data string) {
	t.Helper()
	version, err := exec.Command("openssl", "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "from %s", version)
	fmt.Fprintf(&b, "suite %v\nsecret %x\ndata %x\n", st.Suite, secretOf(st.Suite, &st.Read), data)
	for rest := wire; len(rest) > 0; rest = rest[min(40, len(rest)):] {
		fmt.Fprintf(&b, "wire %x\n", rest[:min(40, len(rest))])
	}
	file := filepath.Join("testdata", "openssl", fmt.Sprintf("to-%v-%v.txt", role, st.Suite))
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(b.String()), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// captured reads it back.
func captured(t testing.TB, role Role, s Suite) (st State, wire []byte, data string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "openssl", fmt.Sprintf("to-%v-%v.txt", role, s)))
	if err != nil {
		t.Fatalf("%v; CAPTURE=1 go test -run TestLabOpenSSLKeyUpdates writes it", err)
	}
	st = State{Role: role, Suite: s}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if key == "from" || key == "suite" {
			continue
		}
		b, err := hex.DecodeString(value)
		if err != nil {
			t.Fatal(err)
		}
		switch key {
		case "secret":
			copy(st.Read.Secret[:], b)
		case "data":
			data = string(b)
		case "wire":
			wire = append(wire, b...)
		}
	}
	return st, wire, data
}

// TestOpenSSLRecords opens what was captured from openssl, tickets, padding and new keys
// included, at once and byte by byte, with each implementation of the cipher.
func TestOpenSSLRecords(t *testing.T) {
	for _, role := range []Role{Client, Server} {
		for _, s := range Suites() {
			for _, impl := range gcm.Impls() {
				for _, step := range []int{1, 1 << 20} {
					st, wire, want := captured(t, role, s)
					c, err := NewConn(&st, impl)
					if err != nil {
						t.Fatal(err)
					}
					var (
						got  []byte
						done int
					)
					for end := 0; end < len(wire) && err == nil; {
						end = min(len(wire), end+step)
						for n := 1; n > 0 && err == nil; done += n {
							var payloads [][]byte
							payloads, n, err = c.Open(wire[done:end], make([][]byte, 0, 2))
							got = append(got, bytes.Join(payloads, nil)...)
						}
					}
					if !errors.Is(err, io.EOF) || string(got) != want || done != len(wire) {
						t.Errorf("%v, %v, %v: got %q, %v, %d of %d bytes; want %q", role, s, impl, got, err, done, len(wire), want)
					}
					if c.read.secret == st.Read.Secret {
						t.Errorf("%v, %v: openssl never changed its key", role, s)
					}
				}
			}
		}
	}
}
