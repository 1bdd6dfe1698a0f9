package tap

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
)

// A Secret is what must not be readable. Any run of it of runBytes counts; a
// shorter one counts as a whole.
type Secret struct {
	Name  string
	Bytes []byte
}

const (
	runBytes    = 16
	windowBytes = 8 // every run holds a window that begins at a multiple of this
	leastBytes  = 6 // less turns up by chance
	// jointBytes of a stream before and behind the border of two packets show
	// every run, and every short secret, that lies across.
	jointBytes = 32
)

// Certificate makes secrets of a certificate: its bytes, and its text as PEM.
func Certificate(name string, der []byte) []Secret {
	text := base64.StdEncoding.EncodeToString(der)
	pem := make([]byte, 0, len(text)+len(text)/pemLine)
	for len(text) > 0 {
		n := min(pemLine, len(text))
		pem = append(append(pem, text[:n]...), '\n')
		text = text[n:]
	}
	return []Secret{{name + " (DER)", der}, {name + " (PEM)", pem}}
}

const pemLine = 64

// A finder looks for secrets in bytes.
type finder struct {
	secrets []Secret
	short   []int // indices of secrets that count as a whole
	bits    []uint64
	windows map[uint64][]window
}

// A window is a place in a secret.
type window struct{ secret, at int }

func newFinder(secrets []Secret) (*finder, error) {
	f := &finder{secrets: secrets, windows: make(map[uint64][]window)}
	total := 0
	for i, s := range secrets {
		if len(s.Bytes) < leastBytes {
			return nil, fmt.Errorf("secret %s has %d bytes; want %d or more, as less turns up by chance", s.Name, len(s.Bytes), leastBytes)
		}
		if len(s.Bytes) < runBytes {
			f.short = append(f.short, i)
		}
		total += len(s.Bytes) / windowBytes
	}
	words := 1 << 10
	for words < total {
		words *= 2
	}
	f.bits = make([]uint64, words)
	for i, s := range secrets {
		if len(s.Bytes) < runBytes {
			continue
		}
		for at := 0; at+windowBytes <= len(s.Bytes); at += windowBytes {
			w := binary.LittleEndian.Uint64(s.Bytes[at:])
			if plain := w & 0xff * 0x0101010101010101; plain == w {
				continue // one byte again and again is padding anywhere
			}
			f.windows[w] = append(f.windows[w], window{i, at})
			h := f.hash(w)
			f.bits[h>>6] |= 1 << (h & 63)
		}
	}
	return f, nil
}

func (f *finder) hash(w uint64) uint64 {
	return (w * 0x9e3779b97f4a7c15) >> 20 & uint64(len(f.bits)*64-1)
}

// find calls hit with the secret and the place of each run in b.
func (f *finder) find(b []byte, hit func(secret, from, to int)) {
	for _, i := range f.short {
		for at := 0; ; at++ {
			n := bytes.Index(b[at:], f.secrets[i].Bytes)
			if n < 0 {
				break
			}
			at += n
			hit(i, at, at+len(f.secrets[i].Bytes))
		}
	}
	if len(f.windows) == 0 {
		return
	}
	for at := 0; at+windowBytes <= len(b); {
		w := binary.LittleEndian.Uint64(b[at:])
		if h := f.hash(w); f.bits[h>>6]>>(h&63)&1 != 0 {
			if secret, from, to := f.run(b, at, f.windows[w]); to > from {
				hit(secret, from, to)
				at = to
				continue
			}
		}
		at++
	}
}

// run is the first run around the place in b at which one of the windows lies.
func (f *finder) run(b []byte, at int, places []window) (secret, from, to int) {
	for _, w := range places {
		s := f.secrets[w.secret].Bytes
		i, j := at, at+windowBytes
		for k := w.at; i > 0 && k > 0 && b[i-1] == s[k-1]; i, k = i-1, k-1 {
		}
		for k := w.at + windowBytes; j < len(b) && k < len(s) && b[j] == s[k]; j, k = j+1, k+1 {
		}
		if j-i >= runBytes {
			return w.secret, i, j
		}
	}
	return 0, 0, 0
}
