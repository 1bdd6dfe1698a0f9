package node_test

import (
	"io"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/node"
	"github.com/sluice-mesh/sluice/dataplane/sys"
)

// TestLabDirectCase6ZeroWindow lets everything fill up behind a receiver that
// does not read, in each direction, until the senders' kernels ask whether there
// is room again; then it reads, and everything arrives.
func TestLabDirectCase6ZeroWindow(t *testing.T) {
	s := newScene(t, node.Config{})
	s.eachSetting(t, func(t *testing.T, v variant) {
		e := v.listen(t, appPort)
		var all []*joined
		for _, v := range v.both() {
			all = append(all, v.crossing(t, e, true)...)
		}
		type stream struct {
			from, to *net.TCPConn
			sent     chan int64
		}
		var streams []stream
		for _, j := range all {
			streams = append(streams, stream{j.client, j.server, make(chan int64, 1)}, stream{j.server, j.client, make(chan int64, 1)})
		}
		for _, s := range streams {
			go func() {
				s.sent <- untilStopped(s.from)
				s.from.CloseWrite()
			}()
		}
		// The pod's kernel probes for the application and for the proxy.
		before := kernelCounters(t, v.pod)["TcpExt.TCPWinProbe"]
		eventually(t, "window probes", func() bool {
			return kernelCounters(t, v.pod)["TcpExt.TCPWinProbe"] >= before+len(streams)
		})
		for _, s := range streams {
			if err := s.from.SetWriteDeadline(time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		for _, s := range streams {
			wg.Go(func() {
				got, err := io.Copy(io.Discard, s.to)
				if sent := <-s.sent; got != sent || err != nil {
					t.Errorf("from %v to %v: %d bytes were sent, %d received, %v", s.from.LocalAddr(), s.to.LocalAddr(), sent, got, err)
				}
			})
		}
		wg.Wait()
	})
}

// untilStopped writes to c until its write deadline, and returns how much was
// taken.
func untilStopped(c *net.TCPConn) (n int64) {
	for buf := make([]byte, 64<<10); ; {
		k, err := c.Write(buf)
		if n += int64(k); err != nil {
			return n
		}
	}
}

// TestLabDirectCase6Keepalive has all sides probe idle connections: the client
// and the server those to the proxy, and the proxy those that it accepted. All
// probes are answered.
func TestLabDirectCase6Keepalive(t *testing.T) {
	cfg := node.Config{}
	cfg.Session.Keepalive = sys.Keepalive{Idle: time.Second, Interval: time.Second, Count: 1}
	s := newScene(t, cfg)
	s.eachSetting(t, func(t *testing.T, v variant) {
		e := v.listen(t, appPort)
		var all []*joined
		for _, v := range v.both() {
			all = append(all, v.crossing(t, e, false)...)
		}
		for _, j := range all {
			for _, c := range []*net.TCPConn{j.client, j.server} {
				if err := c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 1}); err != nil {
					t.Fatal(err)
				}
			}
			j.talk()
		}
		idle := time.Now()
		// One each: of the application and the proxy in the pod, of the other side.
		for _, k := range []struct {
			in   *lab.Space
			want int
		}{{v.pod, 2 * len(all)}, {v.host, len(all)}} {
			eventually(t, "answers to keepalive probes in "+k.in.Name, func() bool {
				return answered(t, k.in, time.Since(idle)-noRetry) >= k.want
			})
		}
		for _, j := range all {
			j.talk()
			j.finish()
		}
	})
}

var lastACK = regexp.MustCompile(`timer:\(keepalive.*\blastack:(\d+)`)

// answered counts the connections with keepalive that have got an ACK within the
// time: when nothing else was sent for longer, it answers a probe.
func answered(t *testing.T, s *lab.Space, within time.Duration) (n int) {
	t.Helper()
	// One line each.
	for line := range strings.Lines(lab.Output(t, s, "ss", "-HOtnoi", "state", "established")) {
		if m := lastACK.FindStringSubmatch(line); m != nil {
			ms, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			if time.Duration(ms)*time.Millisecond < within {
				n++
			}
		}
	}
	return n
}

// TestLabDirectCase6AfterClose sends after the application has closed: what the
// other side sends to one that has only ended its own way, and what the kernel
// still has to send, again, for one that is gone.
func TestLabDirectCase6AfterClose(t *testing.T) {
	s := newScene(t, node.Config{})
	s.eachSetting(t, func(t *testing.T, v variant) {
		e := v.listen(t, appPort)
		var gone []proxied
		for _, v := range v.both() {
			for _, p := range v.applications(t, e) {
				const size = 1 << 20
				p.shut(p.app)
				p.wantEOF(p.other, 0)
				go p.sendAll(p.other, size)
				p.wantEOF(p.app, size)
			}
			gone = append(gone, v.applications(t, e)...)
		}

		const size = 16 << 10 // fits the kernel's buffer: the write returns
		var rows []string
		for _, p := range gone {
			rows = append(rows, p.row())
		}
		lost := v.watch(t, v.pod, "input", "drop", rows...)
		for _, p := range gone {
			p.send(p.app, size)
			p.app.Close()
		}
		if n := inState(t, v.pod, "fin-wait-1"); n != len(gone) {
			t.Errorf("%d closed sockets have something to send; want %d", n, len(gone))
		}
		lost.stop()
		for _, p := range gone {
			p.wantEOF(p.other, size)
		}
	})
}

// sendAll sends n bytes and FIN; from a goroutine of its own.
func (j *joined) sendAll(c *net.TCPConn, n int) {
	_, err := c.Write(make([]byte, n))
	if err = join(err, c.CloseWrite()); err != nil {
		j.t.Errorf("send %d bytes: %v", n, err)
	}
}
