package gcm

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"testing"

	"github.com/c2sp/wycheproof"
)

// TestNIST has the test cases with 96-bit nonces that were submitted to NIST
// with GCM (McGrew and Viega, "The Galois/Counter Mode of Operation", appendix
// B); the first and the third of each key size with and without the rest.
func TestNIST(t *testing.T) {
	const (
		zero128 = "00000000000000000000000000000000"
		key128  = "feffe9928665731c6d6a8f9467308308"
		nonce   = "cafebabefacedbaddecaf888"
		plain   = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72" +
			"1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255"
		cut = 120 // hex digits of plain in the cases with additional data
		ad  = "feedfacedeadbeeffeedfacedeadbeefabaddad2"
		c3  = "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e" +
			"21d514b25466931c7d8f6a5aac84aa051ba30b396a0aac973d58e091473f5985"
		c15 = "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa" +
			"8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad"
	)
	for _, tt := range []struct{ name, key, nonce, plain, ad, cipher, tag string }{
		{"1", zero128, zero128[:24], "", "", "", "58e2fccefa7e3061367f1d57a4e7455a"},
		{"2", zero128, zero128[:24], zero128, "", "0388dace60b6a392f328c2b971b2fe78", "ab6e47d42cec13bdf53a67b21257bddf"},
		{"3", key128, nonce, plain, "", c3, "4d5c2af327cd64a62cf35abd2ba6fab4"},
		{"4", key128, nonce, plain[:cut], ad, c3[:cut], "5bc94fbc3221a5db94fae95ae7121a47"},
		{"13", zero128 + zero128, zero128[:24], "", "", "", "530f8afbc74536b9a963b4f1c4cb738b"},
		{"14", zero128 + zero128, zero128[:24], zero128, "", "cea7403d4d606b6e074ec5d3baf39d18", "d0d1c8a799996bf0265b98b5d48ab919"},
		{"15", key128 + key128, nonce, plain, "", c15, "b094dac5d93471bdec1a502270e3cc6c"},
		{"16", key128 + key128, nonce, plain[:cut], ad, c15[:cut], "76fc6ece0f4e1768cddf8853bb2d551b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, unhex(t, tt.key))
			want := unhex(t, tt.cipher+tt.tag)
			m := r.message(unhex(t, tt.nonce), unhex(t, tt.plain), unhex(t, tt.ad))
			if !bytes.Equal(m.sealed, want) {
				t.Fatalf("crypto/cipher gives %x; the case says %x", m.sealed, want)
			}
			r.check(t, m, 0, 0)
		})
	}
}

// TestWycheproof runs all vectors with the sizes that TLS has.
func TestWycheproof(t *testing.T) {
	text, err := fs.ReadFile(wycheproof.TestVectors, "aes_gcm_test.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		TestGroups []struct {
			IvSize, KeySize, TagSize int
			Tests                    []struct {
				TcID                                int
				Comment, Key, Iv, Aad, Msg, Ct, Tag string
				Result                              string
			}
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	valid, invalid := 0, 0
	for _, group := range file.TestGroups {
		if group.IvSize != 8*NonceBytes || group.TagSize != 8*TagBytes || group.KeySize == 192 {
			continue
		}
		for _, tc := range group.Tests {
			r := newRig(t, unhex(t, tc.Key))
			m := message{unhex(t, tc.Iv), unhex(t, tc.Msg), unhex(t, tc.Aad), unhex(t, tc.Ct+tc.Tag)}
			switch tc.Result {
			case "valid":
				r.check(t, m, 0, 0)
				valid++
			case "invalid":
				r.refuse(t, tc.Comment, m)
				invalid++
			default:
				t.Errorf("vector %d has the result %q, which this test does not know", tc.TcID, tc.Result)
			}
		}
	}
	// That many are in the file of September 2026.
	if valid < 79 || invalid < 54 {
		t.Errorf("ran %d valid and %d invalid vectors; the file must have changed its form", valid, invalid)
	}
	t.Logf("%d valid, %d invalid", valid, invalid)
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
