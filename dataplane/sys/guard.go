package sys

import "golang.org/x/sys/unix"

// ProtectMemory makes any access to b a fault. b is whole pages of MapMemory;
// tests put it around buffers that must not be left.
func ProtectMemory(b []byte) error { return unix.Mprotect(b, unix.PROT_NONE) }
