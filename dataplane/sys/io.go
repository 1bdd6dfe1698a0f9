package sys

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Read reads into p, which is not empty. 0 means that the peer sent FIN.
func Read(f *FD, p []byte) (int, error) {
	countCall()
	n, _, e := unix.RawSyscall(unix.SYS_READ, uintptr(f.Raw()), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// Send writes p to a socket without raising SIGPIPE. Less than all of p means
// that the socket is full.
func Send(f *FD, p []byte) (int, error) {
	countCall()
	n, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(f.Raw()), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
		unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// vecs is how many buffers one readv or writev takes; the kernel's limit is
// 1024 (IOV_MAX).
const vecs = 64

// A Vec is room for the buffers of one Readv or Writev; it belongs to one
// thread, so that no call allocates.
type Vec struct {
	iov [vecs]unix.Iovec
}

func (v *Vec) fill(bufs [][]byte) int {
	n := 0
	for _, b := range bufs {
		if len(b) == 0 {
			continue
		}
		if n == vecs {
			break
		}
		v.iov[n].Base = unsafe.SliceData(b)
		v.iov[n].SetLen(len(b))
		n++
	}
	return n
}

// Readv reads into bufs, in order; at most the first 64 that are not empty.
func (v *Vec) Readv(f *FD, bufs [][]byte) (int, error) {
	return v.call(unix.SYS_READV, f, bufs)
}

// Writev writes bufs, in order; at most the first 64 that are not empty.
func (v *Vec) Writev(f *FD, bufs [][]byte) (int, error) {
	return v.call(unix.SYS_WRITEV, f, bufs)
}

func (v *Vec) call(trap uintptr, f *FD, bufs [][]byte) (int, error) {
	n := v.fill(bufs)
	if n == 0 {
		return 0, nil
	}
	countCall()
	got, _, e := unix.RawSyscall(trap, uintptr(f.Raw()), uintptr(unsafe.Pointer(&v.iov)), uintptr(n))
	clear(v.iov[:n]) // keeps nothing alive
	if e != 0 {
		return 0, e
	}
	return int(got), nil
}

// Splice moves up to n bytes between a socket and a pipe without blocking
// (splice(2)). EAGAIN is ambiguous: the source is empty, or the target full.
func Splice(from, to *FD, n int) (int, error) {
	countCall()
	got, _, e := unix.RawSyscall6(unix.SYS_SPLICE, uintptr(from.Raw()), 0, uintptr(to.Raw()), 0, uintptr(n),
		unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
	if e != 0 {
		return 0, e
	}
	return int(got), nil
}

// Pipe makes a non-blocking pipe and asks for room for size bytes; got is the
// room that the kernel really gave (pipe(7): a per-user limit may cut it).
func Pipe(r, w *FD, size int) (got int, err error) {
	var p [2]int
	countCall()
	if err := unix.Pipe2(p[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		return 0, err
	}
	r.Set(p[0])
	w.Set(p[1])
	// A refusal is not an error: the pipe keeps the size that it has.
	_, _ = unix.FcntlInt(uintptr(p[0]), unix.F_SETPIPE_SZ, size)
	got, err = unix.FcntlInt(uintptr(p[0]), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		r.Close()
		w.Close()
		return 0, err
	}
	return got, nil
}

// PipeBytes is how many bytes are in the pipe that f is an end of. The call is
// FIONREAD, which has another name in x/sys.
func PipeBytes(f *FD) (int, error) {
	return unix.IoctlGetInt(f.Raw(), unix.TIOCINQ)
}

// PipeSize is the room of the pipe that f is an end of.
func PipeSize(f *FD) (int, error) {
	return unix.FcntlInt(uintptr(f.Raw()), unix.F_GETPIPE_SZ, 0)
}
