package load

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
)

func TestHTTPReplyIsAHundredBytes(t *testing.T) {
	for _, closing := range []bool{false, true} {
		at := freePorts(t, 1)[0]
		ctx, cancel := context.WithCancel(t.Context())
		ready, ended := make(chan struct{}), make(chan error, 1)
		go func() { ended <- HTTP(ctx, at, closing, func() { close(ready) }) }()
		<-ready
		c, err := net.Dial("tcp4", at.String())
		if err != nil {
			t.Fatal(err)
		}
		requests := "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
		if !closing {
			requests += requests
		}
		if _, err := io.WriteString(c, requests); err != nil {
			t.Fatal(err)
		}
		var b []byte
		if closing {
			b, err = io.ReadAll(c)
		} else {
			b = make([]byte, 200)
			_, err = io.ReadFull(c, b)
		}
		if err != nil || len(b)%replySize != 0 || strings.Count(string(b), "HTTP/1.1 200 OK") != len(b)/replySize {
			t.Errorf("closing %v: %d bytes, %v: %q", closing, len(b), err, b)
		}
		_ = c.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
