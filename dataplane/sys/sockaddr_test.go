package sys

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

var sockAddrSeeds = []string{
	"0.0.0.0:0", "192.0.2.1:80", "255.255.255.255:65535",
	"[::]:0", "[2001:db8::1]:443", "[fe80::1%7]:15001", "[fe80::1%4294967295]:1", "[ff02::1%2]:53",
}

func encode(ap netip.AddrPort) []byte {
	var a sockAddr
	a.set(ap)
	return a.b[:a.n]
}

func TestSockAddrRoundTrip(t *testing.T) {
	for _, text := range sockAddrSeeds {
		want := netip.MustParseAddrPort(text)
		if !want.Addr().IsLinkLocalUnicast() { // other scopes are dropped
			want = netip.AddrPortFrom(want.Addr().WithZone(""), want.Port())
		}
		if got, err := ParseSockAddr(encode(netip.MustParseAddrPort(text))); err != nil || got != want {
			t.Errorf("%s became %v, %v; want %v", text, got, err, want)
		}
	}
	mapped := netip.MustParseAddrPort("[::ffff:192.0.2.1]:80")
	if b := encode(mapped); len(b) != unix.SizeofSockaddrInet4 {
		t.Errorf("IPv4 in IPv6 form is encoded in %d bytes; want the %d of IPv4", len(b), unix.SizeofSockaddrInet4)
	}
}

// A sockAddr is used again: nothing of the last address may be left.
func TestSockAddrUsedAgain(t *testing.T) {
	var a sockAddr
	a.set(netip.MustParseAddrPort("[fe80::ffff:ffff:ffff:ffff%9]:1"))
	for _, text := range []string{"192.0.2.1:80", "[2001:db8::1]:443"} {
		ap := netip.MustParseAddrPort(text)
		a.set(ap)
		if got := string(a.b[:a.n]); got != string(encode(ap)) {
			t.Errorf("%s in used room is %x; want %x", text, got, encode(ap))
		}
	}
}

func TestParseSockAddr(t *testing.T) {
	mapped := make([]byte, unix.SizeofSockaddrInet6)
	binary.NativeEndian.PutUint16(mapped, unix.AF_INET6)
	binary.BigEndian.PutUint16(mapped[2:], 15001)
	copy(mapped[8:], netip.MustParseAddr("::ffff:192.0.2.7").AsSlice())
	binary.NativeEndian.PutUint32(mapped[24:], 3) // IPv4 has no scope
	if got, err := ParseSockAddr(mapped); err != nil || got != netip.MustParseAddrPort("192.0.2.7:15001") {
		t.Errorf("IPv4 in IPv6 form became %v, %v", got, err)
	}
	for _, tt := range []struct {
		name string
		in   []byte
	}{
		{"nothing", nil},
		{"half a family", []byte{unix.AF_INET}},
		{"short IPv4", encode(netip.MustParseAddrPort("192.0.2.1:80"))[:7]},
		{"short IPv6", encode(netip.MustParseAddrPort("[2001:db8::1]:80"))[:27]},
		{"unix", []byte{unix.AF_UNIX, 0, '/', 'x', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
	} {
		if got, err := ParseSockAddr(tt.in); err != EINVAL || got.IsValid() {
			t.Errorf("%s: %v, %v; want EINVAL", tt.name, got, err)
		}
	}
}
