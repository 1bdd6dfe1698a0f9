package sys

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Bits say what happened to a descriptor.
type Bits uint32

// The bits (epoll_ctl(2)).
const (
	Readable Bits = unix.EPOLLIN
	Writable Bits = unix.EPOLLOUT
	Urgent   Bits = unix.EPOLLPRI   // urgent data is among what can be read
	PeerShut Bits = unix.EPOLLRDHUP // the peer sent FIN
	HungUp   Bits = unix.EPOLLHUP   // both directions are shut
	Failed   Bits = unix.EPOLLERR   // SocketError tells
	Edge     Bits = unix.EPOLLET
)

// Stream is what a connected socket is watched for, once and for ever.
const Stream = Readable | Writable | Urgent | PeerShut | Edge

// An Event is one readiness report.
type Event struct{ raw unix.EpollEvent }

// Bits are what happened.
func (e *Event) Bits() Bits { return Bits(e.raw.Events) }

// Data is what Add was given.
func (e *Event) Data() uint64 { return uint64(uint32(e.raw.Fd)) | uint64(uint32(e.raw.Pad))<<32 }

// A Poller is one epoll instance.
type Poller struct{ fd FD }

// Open makes the epoll instance.
func (p *Poller) Open() error {
	raw, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	p.fd.Set(raw)
	return nil
}

// Close ends the epoll instance.
func (p *Poller) Close() error { return p.fd.Close() }

// Add watches f for bits; events carry data.
func (p *Poller) Add(f *FD, bits Bits, data uint64) error {
	ev := unix.EpollEvent{Events: uint32(bits), Fd: int32(uint32(data)), Pad: int32(uint32(data >> 32))}
	countCall()
	if _, _, e := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(p.fd.Raw()), unix.EPOLL_CTL_ADD, uintptr(f.Raw()),
		uintptr(unsafe.Pointer(&ev)), 0, 0); e != 0 {
		return e
	}
	return nil
}

// Remove stops watching f. Closing f does the same only while nobody else holds
// its open file.
func (p *Poller) Remove(f *FD) error {
	var ev unix.EpollEvent
	countCall()
	if _, _, e := unix.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(p.fd.Raw()), unix.EPOLL_CTL_DEL, uintptr(f.Raw()),
		uintptr(unsafe.Pointer(&ev)), 0, 0); e != 0 {
		return e
	}
	return nil
}

// Poll fetches what is ready now, or waits for it for up to ms milliseconds
// without telling the scheduler. It keeps the processor that Go gave it, so ms is
// small; a signal ends it early with none.
func (p *Poller) Poll(events []Event, ms int) (int, error) {
	countCall()
	n, _, e := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd.Raw()),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), uintptr(ms), 0, 0)
	if e == EINTR {
		return 0, nil
	}
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// Wait waits for events until the timeout, which is rounded up to a
// millisecond; negative means for ever. A signal ends it early with none.
func (p *Poller) Wait(events []Event, timeout time.Duration) (int, error) {
	ms := -1
	if timeout >= 0 {
		ms = int((timeout + time.Millisecond - 1) / time.Millisecond)
	}
	countCall()
	n, _, e := unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.fd.Raw()),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))), uintptr(len(events)), uintptr(ms), 0, 0)
	if e == EINTR {
		return 0, nil
	}
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// EventFD makes a counter that wakes an epoll (eventfd(2)).
func EventFD(f *FD) error {
	raw, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return err
	}
	f.Set(raw)
	return nil
}

// Signal adds one to the eventfd f.
func Signal(f *FD) {
	one := uint64(1)
	countCall()
	_, _, _ = unix.RawSyscall(unix.SYS_WRITE, uintptr(f.Raw()), uintptr(unsafe.Pointer(&one)), 8) // full means that it is signalled
}

// Unsignal sets the eventfd f back to zero.
func Unsignal(f *FD) {
	var n uint64
	countCall()
	_, _, _ = unix.RawSyscall(unix.SYS_READ, uintptr(f.Raw()), uintptr(unsafe.Pointer(&n)), 8) // empty is what is wanted
}
