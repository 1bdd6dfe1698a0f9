package sys

import "golang.org/x/sys/unix"

// MapMemory gets size bytes of zeroed memory outside the heap. It is never
// given back; DropMemory returns what backs a part of it.
func MapMemory(size int) ([]byte, error) {
	return unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
}

// DropMemory tells the kernel that b's contents are not needed any more; its
// pages are zero when touched again. b is page-aligned.
func DropMemory(b []byte) { _ = unix.Madvise(b, unix.MADV_DONTNEED) } // a refusal costs memory only
