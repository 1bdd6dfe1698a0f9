package tlsrec

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/sluice-mesh/sluice/dataplane/gcm"
)

// A half is one direction of a connection: the current traffic secret and what
// is computed from it once.
type half struct {
	key    aead
	iv     [nonceLen]byte
	nonce  [nonceLen]byte // of the record being worked on
	seq    uint64         // of the next record
	secret [maxSecretLen]byte
}

// set installs secret and computes its keys. The sequence number is the caller's.
func (h *half) set(s Suite, impl gcm.Impl, secret []byte) error {
	raw := s.expand(secret, "key", s.keyLen())
	key, err := s.newAEAD(raw, impl)
	clear(raw)
	if err != nil {
		return fmt.Errorf("%v: %w", s, err)
	}
	iv := s.expand(secret, "iv", nonceLen)
	if h.key != nil {
		h.key.Destroy()
	}
	h.key = key
	copy(h.iv[:], iv)
	copy(h.secret[:], secret)
	clear(iv)
	return nil
}

// update goes on to the next traffic secret (RFC 8446 7.2).
func (h *half) update(s Suite, impl gcm.Impl) error {
	next := s.expand(h.secret[:s.secretLen()], "traffic upd", s.secretLen())
	defer clear(next)
	h.seq = 0
	return h.set(s, impl, next)
}

// exhausted reports that the sequence number would wrap (RFC 8446 5.3).
func (h *half) exhausted() bool { return h.seq == math.MaxUint64 }

// take returns the nonce of the next record and counts it (RFC 8446 5.3). A
// sequence number is never used twice: it is gone once it was taken.
func (h *half) take() []byte {
	h.nonce = h.iv
	low := h.nonce[nonceLen-8:]
	binary.BigEndian.PutUint64(low, binary.BigEndian.Uint64(low)^h.seq)
	h.seq++
	return h.nonce[:]
}

// destroy overwrites what h knows.
func (h *half) destroy() {
	if h.key != nil {
		h.key.Destroy()
	}
	*h = half{}
}
