package flow_test

import (
	"encoding/binary"
	"errors"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/flow"
)

func TestCodecRoundTrip(t *testing.T) {
	addrs := []netip.AddrPort{
		{},
		netip.MustParseAddrPort("192.0.2.1:0"),
		netip.MustParseAddrPort("[2001:db8::1]:65535"),
		netip.MustParseAddrPort("[fe80::1%4294967295]:80"),
	}
	numbers := []uint64{0, 1, 127, 128, math.MaxUint64}
	b := []byte{7}
	for _, a := range addrs {
		b = flow.AppendAddr(b, a)
	}
	for _, n := range numbers {
		b = binary.AppendUvarint(b, n)
	}
	b = flow.AppendBytes(b, nil)
	b = flow.AppendBytes(b, []byte("held"))
	b = append(b, 9)

	d := flow.NewDecoder(b)
	d.Version("test", 7)
	for _, want := range addrs {
		if got := d.Addr(); got != want {
			t.Errorf("address %v became %v", want, got)
		}
	}
	for _, want := range numbers {
		if got := d.Uint(); got != want {
			t.Errorf("number %d became %d", want, got)
		}
	}
	if got := d.Bytes(0); len(got) != 0 {
		t.Errorf("no bytes became %q", got)
	}
	if got := d.Bytes(4); string(got) != "held" || cap(got) != 4 {
		t.Errorf("bytes became %q with room for %d", got, cap(got))
	}
	if err := d.Err(); err != nil || len(d.Rest()) != 1 {
		t.Errorf("error %v, %d bytes left; want none and 1", err, len(d.Rest()))
	}

	// Cut anywhere, it fails: nothing in it is optional.
	for n := range len(b) - 1 {
		if err := decodeAll(b[:n], len(addrs), len(numbers)); !errors.Is(err, flow.ErrState) {
			t.Errorf("cut to %d of %d bytes: %v; want ErrState", n, len(b), err)
		}
	}
}

// Times come back as they were, but for those that can't be.
func TestDurations(t *testing.T) {
	for in, want := range map[time.Duration]time.Duration{
		0: 0, -1: 0, 1: 1, time.Hour: time.Hour, flow.MaxDuration: flow.MaxDuration, math.MaxInt64: flow.MaxDuration,
	} {
		d := flow.NewDecoder(flow.AppendDuration(nil, in))
		if got := d.Duration(); got != want || d.Err() != nil || len(d.Rest()) > 0 {
			t.Errorf("%v became %v, %v; want %v", in, got, d.Err(), want)
		}
	}
}

func decodeAll(b []byte, addrs, numbers int) error {
	d := flow.NewDecoder(b)
	d.Version("test", 7)
	for range addrs {
		d.Addr()
	}
	for range numbers {
		d.Uint()
	}
	d.Bytes(0)
	d.Bytes(4)
	return d.Err()
}

func TestDecoderRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   []byte
		read func(d *flow.Decoder)
		want string
	}{
		{"version", []byte{2}, func(d *flow.Decoder) { d.Version("thing", 1) }, "thing version 2, want 1"},
		{"nothing", nil, func(d *flow.Decoder) { d.Byte() }, "truncated"},
		{"number without an end", []byte{0x80}, func(d *flow.Decoder) { d.Uint() }, "bad number"},
		{"number too big", slices.Repeat([]byte{0xff}, 11), func(d *flow.Decoder) { d.Uint() }, "bad number"},
		{"longer than the rest", []byte{3, 1, 2}, func(d *flow.Decoder) { d.Bytes(9) }, "bad length"},
		{"longer than allowed", []byte{3, 1, 2, 3}, func(d *flow.Decoder) { d.Bytes(2) }, "bad length"},
		{"time of centuries", binary.AppendUvarint(nil, math.MaxInt64), func(d *flow.Decoder) { d.Duration() }, "bad duration"},
		{"time beyond all bounds", binary.AppendUvarint(nil, math.MaxUint64), func(d *flow.Decoder) { d.Duration() }, "bad duration"},
		{"address of no family", []byte{5, 1, 2, 3, 4, 5}, func(d *flow.Decoder) { d.Addr() }, "bad address"},
		{"first fault stays", []byte{9}, func(d *flow.Decoder) { d.Version("thing", 1); d.Byte() }, "thing version"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := flow.NewDecoder(tt.in)
			tt.read(d)
			err := d.Err()
			if !errors.Is(err, flow.ErrState) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v; want ErrState with %q", err, tt.want)
			}
			if len(d.Rest()) != 0 {
				t.Errorf("%d bytes can still be read after a fault", len(d.Rest()))
			}
		})
	}
}
