package zds_test

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/dataplane/zds"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"google.golang.org/protobuf/proto"
	zdsapi "istio.io/istio/pkg/zdsapi"
)

func soon() time.Time { return time.Now().Add(testkit.Wait) }

// pair is a proxy's connection and the agent's.
func pair(t testing.TB) (proxy, agent *zds.Conn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "z.sock")
	l, err := zds.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if proxy, err = zds.Dial(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Close() })
	if agent, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { agent.Close() })
	return proxy, agent
}

// scripted is a proxy's connection and a bare one, which can say anything.
func scripted(t *testing.T) (proxy *zds.Conn, peer *net.UnixConn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "z.sock")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if proxy, err = zds.Dial(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Close() })
	if peer, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close() })
	return proxy, peer
}

func open(t *testing.T) *sys.FD {
	t.Helper()
	fd, err := sys.OpenNamespace("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fd.Close() })
	return fd
}

func TestBothHalves(t *testing.T) {
	testkit.NoLeaks(t)
	proxy, agent := pair(t)
	hello := zds.Hello{Version: zds.V1, Modes: []string{zds.ModeDirect}}
	if err := proxy.SendHello(hello, soon()); err != nil {
		t.Fatal(err)
	}
	got, err := agent.ReadHello(soon())
	if err != nil || got.Version != zds.V1 || !got.Serves(zds.ModeDirect) {
		t.Fatalf("hello is %+v, %v; want %+v", got, err, hello)
	}
	if _, err := agent.ReadResponse(time.Now().Add(time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a silent proxy is reported as %v", err)
	}
	if p, err := agent.Peer(); err != nil || p.PID != os.Getpid() || p.UID != uint32(os.Geteuid()) {
		t.Errorf("peer is %+v, %v; want this process", p, err)
	}
	ns := open(t)
	answers := make(chan zds.Response, 1)
	ask := func(r zds.Request, fd *sys.FD) {
		go func() {
			a, err := agent.Ask(r, fd, soon())
			if err != nil {
				t.Errorf("%v: %v", r.Kind, err)
			}
			answers <- a
		}()
	}
	for _, tt := range requests {
		var fd *sys.FD
		if tt.ours.Kind == zds.Add {
			fd = ns
		}
		ask(tt.ours, fd)
		r, got, err := proxy.ReadRequest()
		if err != nil || r.Kind != tt.ours.Kind || r.UID != tt.ours.UID {
			t.Fatalf("%v came as %+v, %v", tt.ours.Kind, r, err)
		}
		if fd != nil {
			a, errA := sys.NamespaceOf(fd)
			b, errB := sys.NamespaceOf(got)
			if a != b || errA != nil || errB != nil {
				t.Errorf("sent %v, %v; received %v, %v", a, errA, b, errB)
			}
			got.Close()
		}
		want := "no room for " + r.Kind.String()
		if err := proxy.Respond(want, soon()); err != nil {
			t.Fatal(err)
		}
		if a := testkit.Receive(t, testkit.Wait, "answer", answers); a.Error != want {
			t.Errorf("%v answered %q; want %q", r.Kind, a.Error, want)
		}
	}
	agent.Close()
	if _, _, err := proxy.ReadRequest(); !errors.Is(err, io.EOF) {
		t.Errorf("after the agent has gone: %v; want EOF", err)
	}
}

// What a peer can get wrong about packets and descriptors. Nothing may be left
// open, and the connection itself stays usable.
func TestBadPackets(t *testing.T) {
	testkit.NoLeaks(t)
	add := istio(t, requests[0].theirs)
	del := istio(t, requests[4].theirs)
	ns := open(t)
	proxy, peer := scripted(t)
	for _, tt := range []struct {
		name string
		data []byte
		fds  []*sys.FD
		want string
	}{
		{"add without descriptor", add, nil, "No control message"},
		{"add with two", add, []*sys.FD{ns, ns}, "more than one descriptor"},
		{"add with more than there is room for", add, []*sys.FD{ns, ns, ns, ns, ns, ns, ns, ns, ns, ns, ns, ns}, "more than one descriptor"},
		{"del with descriptor", del, []*sys.FD{ns}, "unexpected control message"},
		{"too long", make([]byte, 1025), nil, "longer than the buffer"},
		{"too long with descriptor", make([]byte, 4096), []*sys.FD{ns}, "longer than the buffer"},
		{"exactly the buffer", make([]byte, 1024), []*sys.FD{ns}, "at most 1023"},
		{"garbage with descriptor", []byte("\xff\xff"), []*sys.FD{ns}, "malformed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := sys.SendPacket(peer, tt.data, tt.fds...); err != nil {
				t.Fatal(err)
			}
			r, fd, err := proxy.ReadRequest()
			if !errors.Is(err, zds.ErrMalformed) || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(tt.want)) {
				t.Errorf("read %+v, %v; want an error about %q", r, err, tt.want)
			}
			if fd != nil {
				t.Error("a descriptor was returned with an error")
			}
		})
	}
	if err := sys.SendPacket(peer, add, ns); err != nil {
		t.Fatal(err)
	}
	r, fd, err := proxy.ReadRequest()
	if err != nil || r.Kind != zds.Add {
		t.Fatalf("a good add after the bad ones: %+v, %v", r, err)
	}
	fd.Close()
}

func TestAgentHalf(t *testing.T) {
	testkit.NoLeaks(t)
	ns := open(t)
	t.Run("descriptor only with add", func(t *testing.T) {
		_, agent := pair(t)
		if _, err := agent.Ask(requests[0].ours, nil, soon()); err == nil {
			t.Error("an add without a descriptor was sent")
		}
		if _, err := agent.Ask(requests[4].ours, ns, soon()); err == nil {
			t.Error("a del with a descriptor was sent")
		}
	})
	t.Run("no answer", func(t *testing.T) {
		_, agent := pair(t)
		if _, err := agent.Ask(requests[4].ours, nil, time.Now().Add(time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v; want the deadline", err)
		}
	})
	t.Run("no hello", func(t *testing.T) {
		_, agent := pair(t)
		if _, err := agent.ReadHello(time.Now().Add(time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v; want the deadline", err)
		}
	})
	t.Run("proxy gone", func(t *testing.T) {
		proxy, agent := pair(t)
		proxy.Close()
		if _, err := agent.ReadResponse(time.Time{}); !errors.Is(err, io.EOF) {
			t.Errorf("read: %v; want EOF", err)
		}
		if _, err := agent.Ask(requests[0].ours, ns, soon()); !errors.Is(err, sys.EPIPE) {
			t.Errorf("ask: %v; want EPIPE", err)
		}
	})
	for _, tt := range []struct {
		name string
		send func(c *net.UnixConn) error
		ask  func(c *zds.Conn) error
		want error
	}{
		{"hello with descriptor", func(c *net.UnixConn) error { return sys.SendPacket(c, []byte{8, 1}, ns) },
			func(c *zds.Conn) error { _, err := c.ReadHello(soon()); return err }, zds.ErrMalformed},
		{"hello is garbage", func(c *net.UnixConn) error { return sys.SendPacket(c, []byte{0xff}) },
			func(c *zds.Conn) error { _, err := c.ReadHello(soon()); return err }, zds.ErrMalformed},
		{"answer with descriptor", func(c *net.UnixConn) error { return sys.SendPacket(c, []byte{0x0a, 0}, ns) },
			func(c *zds.Conn) error { _, err := c.Ask(requests[4].ours, nil, soon()); return err }, zds.ErrMalformed},
		{"answer without ack", func(c *net.UnixConn) error { return sys.SendPacket(c, []byte{0x12, 0}) },
			func(c *zds.Conn) error { _, err := c.Ask(requests[4].ours, nil, soon()); return err }, zds.ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "z.sock")
			l, err := zds.Listen(path)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			peer, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Net: "unixpacket", Name: path})
			if err != nil {
				t.Fatal(err)
			}
			defer peer.Close()
			agent, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer agent.Close()
			if err := tt.send(peer); err != nil {
				t.Fatal(err)
			}
			if err := tt.ask(agent); !errors.Is(err, tt.want) {
				t.Errorf("got %v; want %v", err, tt.want)
			}
		})
	}
}

func TestListenTakesOver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "z.sock")
	old, err := net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	old.SetUnlinkOnClose(false) // as after a crash
	old.Close()
	l, err := zds.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("socket has mode %v, %v; want 0600", fi.Mode(), err)
	}
	if _, err := zds.Listen(path); err == nil || !strings.Contains(err.Error(), "another process listens") {
		t.Errorf("a socket in use: %v; want it left to who listens", err)
	}
	if c, err := zds.Dial(t.Context(), path); err != nil {
		t.Errorf("after somebody else tried to listen: %v", err)
	} else {
		c.Close()
	}
	l.Close()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after Close: %v; want the file gone", err)
	}
	if err := os.WriteFile(path, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := zds.Listen(path); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("a file in the way: %v; want it left alone", err)
	}
	if _, err := zds.Listen(filepath.Join(path, "nowhere", "z.sock")); err == nil {
		t.Error("listening in a folder that is not there worked")
	}
}

// The bare protobuf package and ours agree on what Istio would answer.
func TestIstioAgentTalksToOurProxy(t *testing.T) {
	testkit.NoLeaks(t)
	ns := open(t)
	proxy, peer := scripted(t)
	if err := proxy.SendHello(zds.Hello{Version: zds.V1, Modes: []string{zds.ModeDirect}}, soon()); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 1024)
	n, _, err := sys.ReceivePacket(peer, buf)
	if err != nil {
		t.Fatal(err)
	}
	var hello zdsapi.ZdsHello
	if err := proto.Unmarshal(buf[:n], &hello); err != nil || hello.GetVersion() != zdsapi.Version_V1 {
		t.Fatalf("Istio's agent reads %v, %v", &hello, err)
	}
	if err := sys.SendPacket(peer, istio(t, requests[0].theirs), ns); err != nil {
		t.Fatal(err)
	}
	_, fd, err := proxy.ReadRequest()
	if err != nil {
		t.Fatal(err)
	}
	fd.Close()
	if err := proxy.Respond("", soon()); err != nil {
		t.Fatal(err)
	}
	if n, _, err = sys.ReceivePacket(peer, buf); err != nil {
		t.Fatal(err)
	}
	var ack zdsapi.WorkloadResponse
	if err := proto.Unmarshal(buf[:n], &ack); err != nil || ack.GetAck() == nil || ack.GetAck().GetError() != "" {
		t.Errorf("Istio's agent reads %v, %v; want an ack", &ack, err)
	}
}
