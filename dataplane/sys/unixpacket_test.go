package sys_test

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"golang.org/x/sys/unix"
)

func packetPair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	addr := &net.UnixAddr{Net: "unixpacket", Name: filepath.Join(t.TempDir(), "s")}
	l, err := net.ListenUnix("unixpacket", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.DialUnix("unixpacket", nil, addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	if b, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	b.SetDeadline(time.Now().Add(testkit.Wait))
	return a, b
}

func TestPacketWithDescriptor(t *testing.T) {
	testkit.NoLeaks(t)
	a, b := packetPair(t)
	ns, err := sys.OpenNamespace("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	if err := sys.SendPacket(a, []byte("with"), ns); err != nil {
		t.Fatal(err)
	}
	if err := sys.SendPacket(a, []byte("without")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 16)
	n, fd, err := sys.ReceivePacket(b, buf)
	if err != nil || string(buf[:n]) != "with" || fd == nil {
		t.Fatalf("got %q, %v, %v; want a packet with a descriptor", buf[:n], fd, err)
	}
	if flags, err := unix.FcntlInt(uintptr(fd.Raw()), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags of the received descriptor: %#x, %v; want close-on-exec", flags, err)
	}
	if err := sys.CheckNamespace(fd); err != nil {
		t.Errorf("what was received is no namespace: %v", err)
	}
	fd.Close()
	if n, fd, err = sys.ReceivePacket(b, buf); err != nil || string(buf[:n]) != "without" || fd != nil {
		t.Errorf("got %q, %v, %v; want a packet without a descriptor", buf[:n], fd, err)
	}
}

// An empty packet looks like the end of the stream; a descriptor in it must not
// stay open. Go's own wrappers never send one, so this one is sent by hand.
func TestEmptyPacketWithDescriptor(t *testing.T) {
	testkit.NoLeaks(t)
	a, b := packetPair(t)
	if err := sys.SendPacket(a, nil); err != sys.EINVAL {
		t.Errorf("SendPacket of nothing: %v; want EINVAL", err)
	}
	ns, err := sys.OpenNamespace("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	control := unix.UnixRights(ns.Raw())
	msg := unix.Msghdr{Control: &control[0]}
	msg.SetControllen(len(control))
	rc, err := a.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed unix.Errno
	if err := rc.Control(func(s uintptr) {
		_, _, failed = unix.Syscall(unix.SYS_SENDMSG, s, uintptr(unsafe.Pointer(&msg)), 0)
	}); err != nil || failed != 0 {
		t.Fatal(err, failed)
	}
	if _, fd, err := sys.ReceivePacket(b, make([]byte, 16)); err != io.EOF || fd != nil {
		t.Errorf("got %v, %v; want EOF and no descriptor", fd, err)
	}
}

func TestPeerAndLock(t *testing.T) {
	testkit.NoLeaks(t)
	a, _ := packetPair(t)
	p, err := sys.PeerOf(a)
	if err != nil || p.PID != os.Getpid() || p.UID != uint32(os.Geteuid()) || p.GID != uint32(os.Getegid()) {
		t.Errorf("peer is %+v, %v; want this process", p, err)
	}
	path := filepath.Join(t.TempDir(), "lock")
	first, err := sys.LockFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sys.LockFile(path); err != sys.EAGAIN {
		t.Errorf("second lock: %v; want EAGAIN", err)
	}
	first.Close()
	second, err := sys.LockFile(path)
	if err != nil {
		t.Fatalf("after the first was closed: %v", err)
	}
	second.Close()
}
