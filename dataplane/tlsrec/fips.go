package tlsrec

import (
	"crypto/fips140"
	"errors"
)

// CheckFIPS returns an error where this package cannot work: under
// GODEBUG=fips140=only. The program asks at its start.
func CheckFIPS() error {
	if !fips140.Enforced() {
		return nil
	}
	return errors.New("tls: GODEBUG=fips140=only forbids AES-GCM with nonces from outside the module, " +
		"as records of TLS need it, and ChaCha20-Poly1305; set fips140=on or leave it out")
}
