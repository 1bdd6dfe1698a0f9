package load

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
)

// Replies of 100 bytes, with what a head says of the rest.
const (
	httpHead  = "HTTP/1.1 200 OK\r\nContent-Length: 26\r\nConnection: keep-alive\r\nServer: x\r\n\r\n"
	httpClose = "HTTP/1.1 200 OK\r\nContent-Length: 31\r\nConnection: close\r\nServer: x\r\n\r\n"
	httpEnd   = "\r\n\r\n"
	replySize = 100
)

// HTTP answers every request on addr with 100 bytes, head and all, until ctx ends:
// for tools that make load over HTTP alone, to compare Client with. With closing
// each connection ends after its reply, as in churn closed by the server.
func HTTP(ctx context.Context, addr netip.AddrPort, closing bool, ready func()) error {
	h := &httpServer{closing: closing, ready: ready}
	head := httpHead
	if closing {
		head = httpClose
	}
	h.reply = append([]byte(head), bytes.Repeat([]byte("x"), replySize-len(head))...)
	engine := make(chan gnet.Engine, 1)
	h.engine = engine
	stopped := make(chan struct{})
	defer close(stopped)
	go func() {
		select {
		case <-stopped:
			return
		case <-ctx.Done():
		}
		select {
		case e := <-engine:
			_ = e.Stop(context.Background()) // Run returns in any case
		case <-stopped:
		}
	}()
	err := gnet.Run(h, "tcp://"+addr.String(), gnet.WithNumEventLoop(1), gnet.WithLockOSThread(true), gnet.WithReuseAddr(true),
		gnet.WithReusePort(true), gnet.WithTCPNoDelay(gnet.TCPNoDelay), gnet.WithLogLevel(logging.FatalLevel), gnet.WithLogger(quiet{}))
	if err != nil {
		return fmt.Errorf("http server on %v: %w", addr, err)
	}
	return nil
}

type httpServer struct {
	gnet.BuiltinEventEngine

	closing bool
	reply   []byte
	ready   func()
	engine  chan<- gnet.Engine
}

// OnBoot is told that the listener stands.
func (h *httpServer) OnBoot(e gnet.Engine) gnet.Action {
	h.engine <- e
	h.ready()
	return gnet.None
}

// OnTraffic answers the requests that have come. One that is not whole waits.
func (h *httpServer) OnTraffic(c gnet.Conn) gnet.Action {
	for {
		b, err := c.Peek(-1)
		if err != nil {
			return gnet.Close
		}
		end := bytes.Index(b, []byte(httpEnd))
		if end < 0 {
			return gnet.None
		}
		if _, err := c.Discard(end + len(httpEnd)); err != nil {
			return gnet.Close
		}
		if _, err := c.Write(h.reply); err != nil || h.closing {
			return gnet.Close
		}
	}
}
