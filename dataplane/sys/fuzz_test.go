package sys

import (
	"net/netip"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FuzzParseSockAddr is for what the kernel says about peers and original
// destinations: whatever the bytes, an address that is accepted can be used to
// connect to, and is in the one form that all of the proxy compares.
func FuzzParseSockAddr(f *testing.F) {
	for _, text := range sockAddrSeeds {
		f.Add(encode(netip.MustParseAddrPort(text)))
	}
	for _, text := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		f.Add(kernelSays(f, netip.MustParseAddrPort(text)))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		ap, err := ParseSockAddr(in)
		if err != nil {
			if err != EINVAL || ap.IsValid() {
				t.Fatalf("%x: %v, %v", in, ap, err)
			}
			return
		}
		addr := ap.Addr()
		if !addr.IsValid() || addr.Is4In6() {
			t.Fatalf("%x became %v", in, ap)
		}
		if addr.Zone() != "" && !addr.IsLinkLocalUnicast() {
			t.Fatalf("%x became %v, with a scope that it can't have", in, ap)
		}
		if again, err := ParseSockAddr(encode(ap)); err != nil || again != ap {
			t.Fatalf("%v became %v, %v", ap, again, err)
		}
	})
}

// kernelSays is what the kernel answers about a socket that is bound to ap.
func kernelSays(t testing.TB, ap netip.AddrPort) []byte {
	t.Helper()
	var f FD
	defer f.Close()
	if err := Socket(&f, FamilyOf(ap.Addr())); err != nil {
		t.Fatal(err)
	}
	if err := Bind(&f, ap); err != nil {
		t.Fatal(err)
	}
	var b [64]byte
	n := uint32(len(b))
	if _, _, e := unix.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(f.Raw()), uintptr(unsafe.Pointer(&b)), uintptr(unsafe.Pointer(&n))); e != 0 {
		t.Fatal(e)
	}
	if got, err := ParseSockAddr(b[:n]); err != nil || got.Addr() != ap.Addr() || got.Port() == 0 {
		t.Fatalf("the kernel's %x for %v became %v, %v", b[:n], ap, got, err)
	}
	return b[:n]
}
