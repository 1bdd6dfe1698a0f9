//go:build !amd64

package gcm

// On other processors crypto/cipher is what there is; on arm64 its assembly
// is good.
func hasVAES256() bool { return false }
func hasVAES512() bool { return false }

// block has nothing to hold here.
type block struct{}

func newVector([]byte, Impl) vector {
	panic("gcm: no vector implementation on this processor")
}
