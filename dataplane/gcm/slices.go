package gcm

import "unsafe"

// extend returns dst with n more bytes, and those bytes. It allocates when dst
// has no room.
func extend(dst []byte, n int) (all, added []byte) {
	total := len(dst) + n
	if total <= cap(dst) {
		all = dst[:total]
	} else {
		all = make([]byte, total)
		copy(all, dst)
	}
	return all, all[len(dst):]
}

// overlaps reports whether a and b share memory.
func overlaps(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return false
	}
	a0, b0 := uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&b[0]))
	return a0 < b0+uintptr(len(b)) && b0 < a0+uintptr(len(a))
}

// overlapsElsewhere is overlaps, but two slices with one start are in order:
// that is work in place.
func overlapsElsewhere(a, b []byte) bool {
	return overlaps(a, b) && &a[0] != &b[0]
}
