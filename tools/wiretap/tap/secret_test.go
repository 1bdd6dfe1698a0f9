package tap

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func noise(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// Every run of 16 bytes is found, wherever it is in the secret and in the packet,
// and one of 15 is not.
func TestFinderRuns(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	secret := noise(rng, 5000)
	f, err := newFinder([]Secret{{"other", noise(rng, 5000)}, {"secret", secret}})
	if err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		n := runBytes - 1 + rng.IntN(30)
		from := rng.IntN(len(secret) - n)
		b := noise(rng, 100+rng.IntN(100))
		at := rng.IntN(len(b) - n)
		copy(b[at:], secret[from:from+n])
		if at > 0 && from > 0 { // no longer than it was made
			b[at-1] = ^secret[from-1]
		}
		if at+n < len(b) {
			b[at+n] = ^secret[from+n]
		}
		found := 0
		f.find(b, func(s, x, y int) {
			if s == 1 && x == at && y == at+n {
				found++
			} else {
				t.Fatalf("found secret %d at %d to %d; want 1, %d to %d", s, x, y, at, at+n)
			}
		})
		if want := 1; n < runBytes && found != 0 || n >= runBytes && found != want {
			t.Fatalf("a run of %d bytes was found %d times", n, found)
		}
	}
}

func TestFinderShortAndPlain(t *testing.T) {
	f, err := newFinder([]Secret{{"name", []byte("spiffe://")}, {"padded", slices.Concat(make([]byte, 64), []byte("0123456789abcdefghijkl"), make([]byte, 64))}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		in   string
		want string
	}{
		{"spiffe://a spiffe://b", "name name"},
		{"spiffe:/", ""},
		{strings.Repeat("\x00", 200), ""}, // zeroes are in every packet
		{"xx89abcdefghijklyy", ""},        // 14 bytes
		{"xx0123456789abcdefgyy", "padded"},
	} {
		var got []string
		f.find([]byte(tt.in), func(s, _, _ int) { got = append(got, f.secrets[s].Name) })
		if strings.Join(got, " ") != tt.want {
			t.Errorf("in %q were found %q; want %q", tt.in, got, tt.want)
		}
	}
	if _, err := newFinder([]Secret{{"tiny", []byte("short")}}); err == nil {
		t.Error("a secret of 5 bytes was taken")
	}
}

func TestCertificateText(t *testing.T) {
	der := noise(rand.New(rand.NewPCG(7, 8)), 300)
	s := Certificate("leaf", der)
	if len(s) != 2 || !bytes.Equal(s[0].Bytes, der) || bytes.Count(s[1].Bytes, []byte("\n")) != 7 {
		t.Errorf("secrets of a certificate: %q", s)
	}
}

func FuzzFinder(f *testing.F) {
	f.Add([]byte("a secret that is longer than 16 bytes"), []byte("there is a secret that is longer than"))
	f.Add([]byte("spiffe://"), []byte("xspiffe://x"))
	f.Add(bytes.Repeat([]byte("ab"), 40), bytes.Repeat([]byte("ab"), 30))
	// What is called found is there, and a whole secret is found.
	f.Fuzz(func(t *testing.T, secret, in []byte) {
		fd, err := newFinder([]Secret{{"s", secret}})
		if err != nil {
			return
		}
		hits := 0
		fd.find(in, func(_, from, to int) {
			hits++
			if to-from < min(runBytes, len(secret)) || !bytes.Contains(secret, in[from:to]) {
				t.Fatalf("%q was found in %q", in[from:to], secret)
			}
		})
		plain := true
		for at := 0; at+windowBytes <= len(secret) && len(secret) >= runBytes; at += windowBytes {
			plain = plain && bytes.Count(secret[at:at+windowBytes], secret[at:at+1]) == windowBytes
		}
		if bytes.Contains(in, secret) && hits == 0 && !(plain && len(secret) >= runBytes) {
			t.Fatalf("%q was not found in %q", secret, in)
		}
	})
}
