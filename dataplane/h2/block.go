package h2

import "golang.org/x/net/http2/hpack"

// Indices of RFC 7541 appendix A.
const (
	staticAuthority = 1
	staticMethod    = 2
	staticStatus    = 8
)

// AppendTableSize says that our blocks use no table. It stands in front of the first
// block of a connection, and of the first one behind a SETTINGS that names a size.
func AppendTableSize(b []byte) []byte { return append(b, 0x20) }

// AppendConnect begins the block of a CONNECT request: method and authority, and
// nothing else of the pseudo-header fields (RFC 9113 8.5). Regular fields follow by
// AppendField. What is the same for each stream of a destination is encoded once.
func AppendConnect(b, authority []byte) []byte {
	b = appendString(append(b, staticMethod), "CONNECT")
	return appendString(append(b, staticAuthority), authority)
}

// AppendStatus begins the block of a response.
func AppendStatus(b []byte, status int) []byte {
	digits := [3]byte{'0' + byte(status/100%10), '0' + byte(status/10%10), '0' + byte(status%10)}
	for i := staticStatus; i < staticStatus+7; i++ {
		if string(staticTable[i-1].value) == string(digits[:]) {
			return append(b, 0x80|byte(i))
		}
	}
	return appendString(append(b, staticStatus), digits[:])
}

// AppendField appends a regular field with a lower-case name, never to be indexed in
// a table. The caller sees to it that the value is one (RFC 9113 8.2.1).
func AppendField(b []byte, name string, value []byte) []byte {
	return appendString(appendString(append(b, 0), name), value)
}

// AppendFieldHuffman is AppendField, shorter and slower: for blocks that are encoded
// once and sent often.
func AppendFieldHuffman(b []byte, name, value string) []byte {
	return appendHuffman(appendHuffman(append(b, 0), name), value)
}

func appendString[S ~string | ~[]byte](b []byte, s S) []byte {
	return append(appendInt(b, 0, 7, uint64(len(s))), s...)
}

func appendHuffman(b []byte, s string) []byte {
	n := hpack.HuffmanEncodeLength(s)
	if n >= uint64(len(s)) {
		return append(appendInt(b, 0, 7, uint64(len(s))), s...)
	}
	return hpack.AppendHuffmanString(appendInt(b, 0x80, 7, n), s)
}

// appendInt appends an integer whose first byte has a prefix of so many bits (RFC
// 7541 5.1) below the bits of first.
func appendInt(b []byte, first byte, bits int, v uint64) []byte {
	limit := uint64(1)<<bits - 1
	if v < limit {
		return append(b, first|byte(v))
	}
	b = append(b, first|byte(limit))
	for v -= limit; v >= 0x80; v >>= 7 {
		b = append(b, byte(v)|0x80)
	}
	return append(b, byte(v))
}
