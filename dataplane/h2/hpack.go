package h2

import (
	"golang.org/x/net/http2/hpack"
)

// fieldOverhead is what each field counts besides its bytes, in a dynamic table and
// in SETTINGS_MAX_HEADER_LIST_SIZE alike.
const fieldOverhead = 32

// A fieldReader reads the fields of compressed blocks (RFC 7541). It is not the
// library's: that one allocates a string for each name and each value, and its
// dynamic table can't be taken out to be frozen. Huffman coding is the library's.
type fieldReader struct {
	table   dynamicTable
	allowed uint32 // largest table that the peer may choose
	update  bool   // the next block has to begin with a change of the table's size
	text    text   // decoded strings of this block
}

// text collects what is written to it.
type text []byte

// Write appends p.
func (t *text) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	return len(p), nil
}

const keepText = 4 << 10 // a larger buffer is given back after use

// begin starts a block: instructions about the table's size, which may stand in
// front of the first field only, are carried out.
func (r *fieldReader) begin(b []byte) (rest []byte, ok bool) {
	if cap(r.text) > keepText {
		r.text = nil
	}
	r.text = r.text[:0]
	for len(b) > 0 && b[0]&0xe0 == 0x20 {
		size, after, ok := readInt(b, 5)
		if !ok || size > uint64(r.allowed) {
			return nil, false
		}
		r.table.resize(uint32(size))
		r.update = false
		b = after
	}
	if r.update {
		return nil, false // RFC 9113 4.3.1
	}
	return b, true
}

// next reads one field. The slices are part of b, of text or of a table.
func (r *fieldReader) next(b []byte) (name, value, rest []byte, ok bool) {
	first := b[0]
	prefix, insert := 4, false
	switch {
	case first&0x80 != 0: // indexed
		i, rest, ok := readInt(b, 7)
		if !ok {
			return nil, nil, nil, false
		}
		name, value, ok = r.at(i)
		return name, value, rest, ok
	case first&0x40 != 0:
		prefix, insert = 6, true
	case first&0x20 != 0: // a table's size behind a field (RFC 7541 4.2)
		return nil, nil, nil, false
	}
	i, rest, ok := readInt(b, prefix)
	if !ok {
		return nil, nil, nil, false
	}
	if i == 0 {
		name, rest, ok = r.str(rest)
	} else {
		name, _, ok = r.at(i)
	}
	if !ok {
		return nil, nil, nil, false
	}
	if value, rest, ok = r.str(rest); !ok {
		return nil, nil, nil, false
	}
	if insert {
		r.table.insert(name, value)
	}
	return name, value, rest, true
}

// at is the entry of an index: 1 to 61 are static, then come the dynamic ones, the
// newest first.
func (r *fieldReader) at(i uint64) (name, value []byte, ok bool) {
	if i == 0 {
		return nil, nil, false
	}
	if i <= uint64(len(staticTable)) {
		e := &staticTable[i-1]
		return e.name, e.value, true
	}
	i -= uint64(len(staticTable)) + 1
	if i >= uint64(len(r.table.entries)) {
		return nil, nil, false
	}
	e := r.table.entries[len(r.table.entries)-1-int(i)]
	return e.name, e.value, true
}

// str reads a string literal.
func (r *fieldReader) str(b []byte) (s, rest []byte, ok bool) {
	if len(b) == 0 {
		return nil, nil, false
	}
	n, rest, ok := readInt(b, 7)
	if !ok || n > uint64(len(rest)) {
		return nil, nil, false
	}
	s, rest = rest[:n:n], rest[n:]
	if b[0]&0x80 == 0 {
		return s, rest, true
	}
	at := len(r.text)
	if _, err := hpack.HuffmanDecode(&r.text, s); err != nil {
		return nil, nil, false
	}
	return r.text[at:len(r.text):len(r.text)], rest, true
}

// readInt reads an integer whose first byte has a prefix of so many bits (RFC 7541
// 5.1). One that needs more than 63 bits is refused.
func readInt(b []byte, bits int) (v uint64, rest []byte, ok bool) {
	limit := uint64(1)<<bits - 1
	v, b = uint64(b[0])&limit, b[1:]
	if v < limit {
		return v, b, true
	}
	for shift := 0; len(b) > 0 && shift < 63; shift += 7 {
		c := b[0]
		b = b[1:]
		v += uint64(c&0x7f) << shift
		if c&0x80 == 0 {
			return v, b, true
		}
	}
	return 0, nil, false
}

// A tableEntry is a field that a block can name by a number.
type tableEntry struct{ name, value []byte }

func (e tableEntry) size() uint32 { return uint32(len(e.name)+len(e.value)) + fieldOverhead }

// A dynamicTable holds what the peer asked to be remembered (RFC 7541 2.3.2), in the
// short time until it knows that we want no such thing.
type dynamicTable struct {
	entries []tableEntry // the oldest first
	size    uint32
	max     uint32
}

// insert remembers a field; one that is too large empties the table (RFC 7541 4.4).
func (t *dynamicTable) insert(name, value []byte) {
	size := uint32(len(name)+len(value)) + fieldOverhead
	if size > t.max {
		t.evict(t.max)
		return
	}
	t.evict(size)
	both := make([]byte, 0, len(name)+len(value)) // name may be one of an entry that goes
	both = append(append(both, name...), value...)
	t.entries = append(t.entries, tableEntry{both[:len(name):len(name)], both[len(name):]})
	t.size += size
}

// evict makes room for n bytes.
func (t *dynamicTable) evict(n uint32) {
	gone := 0
	for gone < len(t.entries) && t.size+n > t.max {
		t.size -= t.entries[gone].size()
		gone++
	}
	if gone > 0 {
		t.entries = append(t.entries[:0], t.entries[gone:]...)
	}
}

func (t *dynamicTable) resize(limit uint32) {
	t.max = limit
	t.evict(0)
	if limit == 0 {
		t.entries = nil
	}
}
