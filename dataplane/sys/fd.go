// Package sys is the one door to Linux: descriptors, epoll, socket options,
// splice, original destination, kernel features and errno.
//
// Everything here is a thin wrapper that neither blocks nor allocates unless
// its comment says so. Errors are bare errno values, compared with ==.
//
// Owns nothing but the descriptors inside each FD.
package sys

import "golang.org/x/sys/unix"

// noCopy makes vet report copies of a value that holds it.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// FD owns one descriptor. The zero value is empty; never copy one that is not.
//
// A function whose comment says that it takes an *FD has closed it when it
// fails; there is no third case.
type FD struct {
	_ noCopy
	n int32 // the number plus one, so that the zero value owns nothing
}

// NewFD takes raw, a descriptor that nobody else owns.
func NewFD(raw int) *FD {
	f := new(FD)
	f.Set(raw)
	return f
}

// Set puts raw, a descriptor that nobody else owns, into an empty f.
func (f *FD) Set(raw int) {
	if f.n != 0 {
		panic("sys: Set on an FD that owns a descriptor")
	}
	f.n = int32(raw) + 1
	trackOpen(raw)
}

// Raw lends the number for the length of one call; -1 when f is empty.
func (f *FD) Raw() int { return int(f.n) - 1 }

// Valid reports whether f owns a descriptor.
func (f *FD) Valid() bool { return f.n != 0 }

// Take moves the descriptor out; f no longer closes it. -1 when f is empty.
func (f *FD) Take() int {
	raw := f.Raw()
	if f.n != 0 {
		trackClosed(raw)
	}
	f.n = 0
	return raw
}

// MoveTo moves the descriptor into an empty to; from an empty f nothing.
func (f *FD) MoveTo(to *FD) {
	if to.n != 0 {
		panic("sys: MoveTo an FD that owns a descriptor")
	}
	if f.n != 0 {
		to.Set(f.Take())
	}
}

// Close closes the descriptor; on an empty FD it does nothing. It is never
// retried: the number is free even when close(2) reports an error.
func (f *FD) Close() error {
	if f.n == 0 {
		return nil
	}
	return closeRaw(f.Take())
}

// Dup returns a second descriptor, close-on-exec, for the same open file.
func (f *FD) Dup() (*FD, error) {
	n, err := unix.FcntlInt(uintptr(f.Raw()), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	return NewFD(n), nil
}

func closeRaw(raw int) error {
	countCall()
	if _, _, e := unix.RawSyscall(unix.SYS_CLOSE, uintptr(raw), 0, 0); e != 0 {
		return e
	}
	return nil
}

// FDs are descriptors that were handed over with a state, in its order. It owns
// those that were not taken yet.
type FDs struct {
	list []*FD
}

// NewFDs takes all of list.
func NewFDs(list []*FD) *FDs { return &FDs{list: list} }

// Next moves the next descriptor out; an empty FD when there is none left.
func (s *FDs) Next() *FD {
	if len(s.list) == 0 {
		return new(FD)
	}
	f := s.list[0]
	s.list = s.list[1:]
	return f
}

// Close closes those that nobody took, with a reset where that is possible: their
// state is lost, and a FIN would say that all was delivered.
func (s *FDs) Close() {
	for _, f := range s.list {
		Reset(f)
	}
	s.list = nil
}
