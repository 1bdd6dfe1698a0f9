package bare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"

	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// runNaive is a relay as one writes it first: a goroutine per direction, and
// io.Copy, which splices by itself. Only the dialling is ours, because the
// standard library can't choose a source port.
func runNaive(ctx context.Context, c Config, ready func()) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	listeners := make([]net.Listener, 0, len(c.Ports))
	defer func() {
		for _, l := range listeners {
			_ = l.Close()
		}
	}()
	n := &naive{cfg: c, ports: newChooser(0, 1)}
	for _, port := range c.Ports {
		f := new(sys.FD)
		if err := listen(f, port); err != nil {
			return fmt.Errorf("bare relay: %w", err)
		}
		file := os.NewFile(uintptr(f.Take()), "listener")
		l, err := net.FileListener(file)
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("bare relay: listen on port %d: %w", port, err)
		}
		listeners = append(listeners, l)
		wg.Go(func() { n.accept(l, port) })
	}
	ready()
	<-ctx.Done()
	return nil
}

type naive struct {
	cfg Config

	mu    sync.Mutex // guards ports
	ports chooser
}

func (n *naive) accept(l net.Listener, port uint16) {
	for {
		c, err := l.Accept()
		if err != nil {
			return // the listener is closed
		}
		go n.serve(c.(*net.TCPConn), port)
	}
}

func (n *naive) serve(client *net.TCPConn, port uint16) {
	server, err := n.dial(client, port)
	if err != nil {
		_ = client.SetLinger(0)
		_ = client.Close()
		return
	}
	up := make(chan struct{})
	go func() {
		defer close(up)
		pass(server, client)
	}()
	pass(client, server)
	<-up
	_ = client.Close()
	_ = server.Close()
}

// pass copies one way, and passes on how it ended.
func pass(dst, src *net.TCPConn) {
	if _, err := io.Copy(dst, src); err != nil {
		_ = dst.SetLinger(0)
		_ = src.SetLinger(0)
		_ = dst.Close()
		_ = src.Close()
		return
	}
	_ = dst.CloseWrite()
}

func (n *naive) dial(client *net.TCPConn, port uint16) (*net.TCPConn, error) {
	raw, err := client.SyscallConn()
	if err != nil {
		return nil, err
	}
	var to netip.AddrPort
	var inner error
	if err := raw.Control(func(fd uintptr) {
		f := sys.NewFD(int(fd))
		to, inner = target(f, port)
		f.Take() // it stays the connection's
	}); err != nil || inner != nil {
		return nil, errors.Join(err, inner)
	}
	from := client.RemoteAddr().(*net.TCPAddr).AddrPort()
	for range portTries {
		c, err := n.try(from, to, port == n.cfg.App)
		if errors.Is(err, sys.EADDRINUSE) || errors.Is(err, sys.EADDRNOTAVAIL) {
			continue // that port is taken
		}
		if err != nil {
			return nil, err
		}
		return c.(*net.TCPConn), nil
	}
	return nil, sys.EADDRINUSE
}

// try dials from one source port.
func (n *naive) try(from, to netip.AddrPort, app bool) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1}
	switch {
	case n.cfg.Own:
		d.Control = controlOwn
	case app:
		d.Control = controlApp
	default:
		d.Control = controlOut
	}
	if !n.cfg.Own {
		local := netip.AddrPortFrom(from.Addr(), 0)
		if app {
			n.mu.Lock()
			local = netip.AddrPortFrom(from.Addr(), n.ports.pick(from.Port()))
			n.mu.Unlock()
		}
		d.LocalAddr = net.TCPAddrFromAddrPort(local)
	}
	return d.Dial("tcp4", to.String())
}

// A rawConn is what a dialer lends before it binds: a syscall.RawConn.
type rawConn interface{ Control(func(fd uintptr)) error }

func controlOwn[C rawConn](_, _ string, raw C) error { return control(raw, false, true) }
func controlApp[C rawConn](_, _ string, raw C) error { return control(raw, true, false) }
func controlOut[C rawConn](_, _ string, raw C) error { return control(raw, false, false) }

func control(raw rawConn, app, own bool) error {
	var inner error
	err := raw.Control(func(fd uintptr) {
		f := sys.NewFD(int(fd))
		inner = options(f, app, own)
		f.Take() // it stays the dialer's
	})
	return errors.Join(err, inner)
}
