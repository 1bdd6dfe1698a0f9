package rt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// record is a struct inet_diag_msg for a socket from local to remote, followed
// by attrs.
func record(family, state, timer uint8, local, remote netip.AddrPort, attrs ...byte) []byte {
	b := []byte{family, state, timer, 0}
	b = binary.BigEndian.AppendUint16(b, local.Port())
	b = binary.BigEndian.AppendUint16(b, remote.Port())
	for _, a := range []netip.AddrPort{local, remote} {
		raw := a.Addr().AsSlice()
		b = append(append(b, raw...), make([]byte, 16-len(raw))...)
	}
	b = binary.NativeEndian.AppendUint32(b, 3)       // interface
	b = binary.NativeEndian.AppendUint64(b, 0xc001e) // cookie
	return append(append(b, make([]byte, 20)...), attrs...)
}

// markAttr is an INET_DIAG_MARK attribute.
func markAttr(mark uint32) []byte {
	b := binary.NativeEndian.AppendUint16(nil, 8)
	b = binary.NativeEndian.AppendUint16(b, attrMark)
	return binary.NativeEndian.AppendUint32(b, mark)
}

func TestParseSocket(t *testing.T) {
	v4, peer4 := netip.MustParseAddrPort("192.0.2.1:80"), netip.MustParseAddrPort("198.51.100.1:2000")
	v6, peer6 := netip.MustParseAddrPort("[2001:db8::1]:80"), netip.MustParseAddrPort("[fe80::1]:2000")
	mapped, peerMapped := netip.MustParseAddrPort("[::ffff:192.0.2.1]:80"), netip.MustParseAddrPort("[::ffff:198.51.100.1]:2000")
	for _, tt := range []struct {
		name                                 string
		family                               uint8
		local, remote, wantLocal, wantRemote netip.AddrPort
	}{
		{"IPv4", unix.AF_INET, v4, peer4, v4, peer4},
		{"IPv6", unix.AF_INET6, v6, peer6, v6, peer6},
		{"IPv4 on an IPv6 socket", unix.AF_INET6, mapped, peerMapped, v4, peer4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := parseSocket(record(tt.family, 1, 0, tt.local, tt.remote, markAttr(0x539)...))
			if err != nil {
				t.Fatal(err)
			}
			if s.Local != tt.wantLocal || s.Remote != tt.wantRemote || s.Mark != 0x539 || s.State != 1 {
				t.Errorf("got %+v", s)
			}
			if cookie := binary.NativeEndian.Uint64(s.id[sockIDBytes-8:]); s.family != tt.family || cookie != 0xc001e {
				t.Errorf("family %d, cookie %#x", s.family, cookie)
			}
		})
	}
}

func TestParseSocketRefuses(t *testing.T) {
	a := netip.MustParseAddrPort("192.0.2.1:80")
	whole := record(unix.AF_INET, 1, 0, a, a, markAttr(1)...)
	if _, err := parseSocket(record(unix.AF_INET, 1, 0, a, a)); !errors.Is(err, unix.EPERM) {
		t.Errorf("without a mark: %v; want EPERM", err)
	}
	// What is left of a closed socket has none on some kernels.
	if s, err := parseSocket(record(unix.AF_INET, 5, timerTimeWait, a, a)); err != nil || s.Mark != 0 {
		t.Errorf("closed, without a mark: %+v, %v", s, err)
	}
	if _, err := parseSocket(record(unix.AF_UNIX, 1, 0, a, a)); err == nil {
		t.Error("no error for address family 1")
	}
	for n := range len(whole) {
		if _, err := parseSocket(whole[:n]); err == nil {
			t.Errorf("no error for the first %d of %d bytes", n, len(whole))
		}
	}
}

// FuzzSocket reads any record. What is taken names the socket that the kernel
// would be asked to reset: the same bytes.
func FuzzSocket(f *testing.F) {
	a := netip.MustParseAddrPort("192.0.2.1:80")
	b := netip.MustParseAddrPort("[2001:db8::1]:443")
	f.Add(record(unix.AF_INET, 1, 0, a, a, markAttr(0x539)...))
	f.Add(record(unix.AF_INET6, 3, 1, b, b, markAttr(0)...))
	f.Add(record(unix.AF_INET, 6, timerTimeWait, a, a))
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := parseSocket(in)
		if err != nil {
			return
		}
		req := diagRequest(s.family, s.id, allStates)
		if len(req) != diagReqBytes || req[0] != in[0] || !bytes.Equal(req[8:], in[4:4+sockIDBytes]) {
			t.Fatalf("record %x is asked for as %x", in, req)
		}
		for _, ap := range []netip.AddrPort{s.Local, s.Remote} {
			if !ap.IsValid() || ap.Addr().Is4In6() {
				t.Fatalf("record %x has address %v", in, ap)
			}
		}
		if s.Local.Port() != binary.BigEndian.Uint16(in[4:]) {
			t.Fatalf("record %x has port %d", in, s.Local.Port())
		}
	})
}
