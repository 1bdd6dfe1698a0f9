package gcm

// sealFunc and openFunc are what the assembly offers; see asm_amd64.go. They are
// called through values, so that nothing stands between a Key's method and the
// assembly: for a record of 64 bytes each call more would be felt.
type (
	sealFunc func(b *block, dst, src *byte, n int, nonce *[NonceBytes]byte, ad *byte, adLen, trailer, extra int)
	openFunc func(b *block, dst, src *byte, n int, nonce *[NonceBytes]byte, ad *byte, adLen int) bool
)

// vector is a key of one of the vector implementations.
type vector struct {
	block *block // holds no pointers, so the collector never looks into it
	seal  sealFunc
	open  openFunc
}

// destroy overwrites the key's memory and leaves v empty.
func (v *vector) destroy() {
	if v.block != nil {
		*v.block = block{}
	}
	*v = vector{}
}
