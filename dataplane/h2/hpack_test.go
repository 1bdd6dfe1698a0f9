package h2

import (
	"bytes"
	"slices"
	"testing"

	"golang.org/x/net/http2/hpack"
)

// newFields is a fieldReader whose peer may use a table of so many bytes.
func newFields(table uint32) *fieldReader {
	r := &fieldReader{allowed: table}
	r.table.max = table
	return r
}

// read is the fields of a block as x/net shows them; false when it is broken. Late
// reports that it broke at a change of the table's size behind the first field, which
// x/net lets pass while the table is empty.
func (r *fieldReader) read(b []byte) (fields []hpack.HeaderField, ok, late bool) {
	b, ok = r.begin(b)
	for ok && len(b) > 0 {
		var name, value []byte
		late = b[0]&0xe0 == 0x20
		if name, value, b, ok = r.next(b); ok {
			fields = append(fields, hpack.HeaderField{Name: string(name), Value: string(value)})
		}
	}
	return fields, ok, late && !ok
}

// Each entry of the static table is what x/net has there.
func TestStaticTable(t *testing.T) {
	for i := range len(staticTable) + 2 {
		block := []byte{0x80 | byte(i)}
		want, err := hpack.NewDecoder(0, nil).DecodeFull(block)
		got, ok, _ := newFields(0).read(block)
		if ok != (err == nil) || !slices.Equal(got, want) {
			t.Errorf("index %d: %v %v, want %v %v", i, got, ok, want, err)
		}
	}
}

// The peer's table until it knows that we want none (RFC 9113 4.3.1, RFC 7541 4).
func TestRFC7541Table(t *testing.T) {
	insert := []byte{0x40, 1, 'a', 1, 'b'} // a: b, to be remembered as 62
	use := []byte{0xbe}
	zero := []byte{0x20}
	big := append(append([]byte{0x40, 1, 'a'}, appendInt(nil, 0, 7, 5000)...), zeros(5000)...)
	for _, tt := range []struct {
		name   string
		blocks [][]byte
		acked  int // our SETTINGS are acknowledged in front of this block; -1 never
		want   []bool
	}{
		{"RFC 9113 4.3.1 4096 bytes at first", [][]byte{insert, use}, -1, []bool{true, true}},
		{"RFC 9113 4.3.1 the table has to be given up", [][]byte{insert, use}, 1, []bool{true, false}},
		{"RFC 9113 4.3.1 even when it is empty", [][]byte{{0x82}}, 0, []bool{false}},
		{"RFC 9113 4.3.1 even by an empty block", [][]byte{{}}, 0, []bool{false}},
		{"RFC 9113 4.3.1 given up in time", [][]byte{insert, append(zero, 0x82), {0x82}}, 1, []bool{true, true, true}},
		{"RFC 9113 4.3.1 given up before it was asked for", [][]byte{zero, {0x82}}, 1, []bool{true, true}},
		{"RFC 9113 4.3.1 then there is nothing in it", [][]byte{insert, append(zero, 0xbe)}, 1, []bool{true, false}},
		{"RFC 9113 4.3.1 nor does anything come in", [][]byte{append(zero, insert...), use}, 0, []bool{true, false}},
		{"RFC 9113 4.3.1 nor may it grow again", [][]byte{append(zero, 0x21)}, 0, []bool{false}},
		{"RFC 7541 4.2 a size above the limit", [][]byte{appendInt(nil, 0x20, 5, 4097)}, -1, []bool{false}},
		{"RFC 7541 4.2 a size at the limit", [][]byte{appendInt(nil, 0x20, 5, 4096)}, -1, []bool{true}},
		{"RFC 7541 4.2 two sizes", [][]byte{insert, append(zero, appendInt(nil, 0x20, 5, 4096)...), use}, -1, []bool{true, true, false}},
		{"RFC 7541 4.2 a size behind a field", [][]byte{{0x82, 0x20}}, -1, []bool{false}},
		{"RFC 7541 4.4 too large an entry empties the table", [][]byte{insert, big, use}, -1, []bool{true, true, false}},
		{"RFC 7541 6.1 index 0", [][]byte{{0x80}}, -1, []bool{false}},
		{"RFC 7541 6.1 an index that is not there", [][]byte{{0xbe}}, -1, []bool{false}},
		{"RFC 7541 5.1 an integer without an end", [][]byte{append([]byte{0xff}, bytes.Repeat([]byte{0x80}, 20)...)}, -1, []bool{false}},
		{"RFC 7541 5.2 a string that is cut", [][]byte{{0x40, 1, 'a', 5, 'b'}}, -1, []bool{false}},
		{"RFC 7541 5.2 a name without a value", [][]byte{{0x40, 1, 'a'}}, -1, []bool{false}},
		{"RFC 7541 5.2 padding that is no end of a string", [][]byte{{0x40, 1, 'a', 0x81, 0x00}}, -1, []bool{false}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := NewDecoder(1 << 20)
			for i, b := range tt.blocks {
				if tt.acked == i {
					d.SettingsAcked()
				}
				var again Decoder // the state survives at each point
				if err := again.Thaw(d.Freeze(nil)); err != nil {
					t.Fatal(err)
				}
				d = again
				err := d.Skip(headers(b))
				want := "fine"
				if !tt.want[i] {
					want = "connection: COMPRESSION_ERROR"
				}
				if got := fault(err); got != want {
					t.Fatalf("block %d: %s, want %s", i, got, want)
				}
			}
		})
	}
}

// A name must not be empty; x/net's encoder can't be made to write such a field.
func TestEmptyName(t *testing.T) {
	d := NewDecoder(1 << 16)
	var r Request
	if got := fault(d.Request(headers(append(block(t, connect, target), 0, 0, 1, 'x')), &r)); got != "stream 7: PROTOCOL_ERROR" {
		t.Errorf("got %s", got)
	}
}

// The table of a peer that uses it to the full holds what x/net's holds.
func TestTableAgainstLibrary(t *testing.T) {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	ours := newFields(defaultHeaderTableBytes)
	theirs := hpack.NewDecoder(defaultHeaderTableBytes, nil)
	for i := range 500 {
		b.Reset()
		for j := range 4 {
			f := hpack.HeaderField{Name: "name" + string(rune('a'+(i*j)%26)), Value: string(bytes.Repeat([]byte{'v'}, i*7%200))}
			if err := enc.WriteField(f); err != nil {
				t.Fatal(err)
			}
		}
		want, err := theirs.DecodeFull(b.Bytes())
		got, ok, _ := ours.read(b.Bytes())
		if err != nil || !ok || !slices.Equal(got, want) {
			t.Fatalf("block %d: %v, %v; want %v, %v", i, got, ok, want, err)
		}
	}
	if len(ours.table.entries) == 0 || ours.table.size > ours.table.max {
		t.Errorf("%d entries of %d bytes", len(ours.table.entries), ours.table.size)
	}
}
