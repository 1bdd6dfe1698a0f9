package gcm

import "testing"

// FuzzAgainstCryptoCipher seals and opens with every implementation and
// compares with crypto/cipher, then changes one bit anywhere and wants a
// refusal. The fuzzer picks lengths and offsets; long messages come from
// repeat, so that it need not carry them.
func FuzzAgainstCryptoCipher(f *testing.F) {
	f.Add([]byte("sixteen byte key"), []byte("twelve bytes"), []byte{23, 3, 3, 0, 33}, []byte("plaintext"), uint16(0), uint16(0), uint32(0))
	f.Fuzz(func(t *testing.T, key, nonce, ad, part []byte, repeat, offsets uint16, bit uint32) {
		if len(key) != 16 && len(key) != 32 || len(nonce) != NonceBytes || len(ad) > MaxAdditional {
			return
		}
		plain := part
		for range min(int(repeat), 2*recordBytes/max(1, len(part))) {
			plain = append(plain, part...)
		}
		if len(plain) > 2*recordBytes {
			return
		}
		r := newRig(t, key)
		m := r.message(nonce, plain, ad)
		r.check(t, m, int(offsets&63), int(offsets>>8&63))

		all := 8 * (len(m.sealed) + len(ad) + NonceBytes)
		switch b := int(bit) % all; {
		case b < 8*len(m.sealed):
			m.sealed = flip(m.sealed, b)
		case b < 8*(len(m.sealed)+len(ad)):
			m.ad = flip(ad, b-8*len(m.sealed))
		default:
			m.nonce = flip(nonce, b-8*(len(m.sealed)+len(ad)))
		}
		r.refuse(t, "a flipped bit", m)
	})
}
