package node_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/dataplane/node"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// TestLabFreezeThaw writes down every flow, in every state that it can be in,
// drops it, and goes on from what was written on another loop, again and again
// while they run: nothing is lost, reordered or cut.
func TestLabFreezeThaw(t *testing.T) {
	testkit.NoLeaks(t)
	l := lab.New(t, lab.Simple(1, 1, 1))
	pod, host := l.Nodes[0].Pods[0], l.Hosts[0]
	n := inProcess(t, node.Config{Loops: 2}, pod)

	var (
		wg   sync.WaitGroup
		runs []func(seed uint64) // one flow each
	)
	for i, way := range []struct{ from, to *lab.Space }{{pod.Space, host.Space}, {host.Space, pod.Space}} {
		for j, at := range []netip.Addr{way.to.Addr4, way.to.Addr6} {
			port := uint16(7000 + 10*i + j)
			serve(t, way.to, netip.AddrPortFrom(at, port))
			for k, kind := range []byte{'b', 'b', 'r', 'r', 'u', 'd'} {
				runs = append(runs, func(seed uint64) {
					play(t, way.from, netip.AddrPortFrom(at, port), kind, seed+uint64(100*i+10*j+k))
				})
			}
		}
	}
	// A dial that stays open until the filter goes away.
	lab.Output(t, host.Space, "nft", "add table inet test; add chain inet test in { type filter hook input priority 0; }; add rule inet test in tcp dport 7777 drop")
	serve(t, host.Space, host.At4(7777))
	wg.Go(func() { play(t, pod.Space, host.At4(7777), 'r', 999) })

	// begin has all flows run once; the channel is closed when they have ended.
	begin := func(seed uint64) <-chan struct{} {
		for _, run := range runs {
			wg.Go(func() { run(seed) })
		}
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		return done
	}
	done, times := begin(0), uint64(1)
	var got node.Refrozen
	step := time.NewTicker(10 * time.Millisecond)
	defer step.Stop()
	rounds, blocked := 0, true
	for open := true; open; {
		n.Refreeze(&got)
		// After a few rounds only: however long each takes here, the dial must
		// not time out.
		if rounds++; blocked && rounds >= 5 && got.Dialing >= 5 {
			blocked = false
			lab.Output(t, host.Space, "nft", "delete table inet test")
		}
		select {
		case <-done:
			// Some states last for a moment only.
			if open = !got.Everything() && times < 10 && !t.Failed(); open {
				done = begin(1000 * times)
				times++
			}
		case <-step.C:
		}
	}
	t.Logf("%d times, %d rounds: %+v", times, rounds, got)
	for _, err := range got.Failed {
		t.Error(err)
	}
	for _, c := range []struct {
		what string
		n    int
	}{
		{"dialing", got.Dialing}, {"relaying", got.Relaying}, {"with bytes in a block", got.Held},
		{"with bytes in a pipe", got.Piped}, {"half-closed by the client", got.UpEnded},
		{"half-closed by the server", got.DownEnded}, {"spliced", got.Splicing},
	} {
		if c.n == 0 {
			t.Errorf("no flow was frozen while it was %s", c.what)
		}
	}
	m, err := n.Metrics()
	if err != nil {
		t.Fatal(err)
	}
	frozen, thawed, refused := m.Count(metric.Frozen), m.Count(metric.Thawed), m.Count(metric.ThawRefused)
	if frozen != uint64(got.Flows) || thawed != frozen || refused != 0 {
		t.Errorf("%d counted as frozen, %d as thawed, %d as refused; want all %d", frozen, thawed, refused, got.Flows)
	}
	if m.Count(metric.MovedIn) == 0 {
		t.Error("no flow is counted as moved from its pod's home loop to the other one")
	}
	if got.Flows < 200 {
		t.Errorf("%d thaws; want 200", got.Flows)
	}
}

const (
	bulkBytes = 48 << 20
	rounds    = 400
)

// serve accepts at at and plays the server's part of play.
func serve(t *testing.T, s *lab.Space, at netip.AddrPort) {
	ln, err := s.Listen(at, lab.Socket{RcvBuf: 32 << 10})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				if err := answer(c); err != nil {
					t.Errorf("server at %v: %v", at, err)
				}
			})
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
}

func answer(c net.Conn) error {
	var kind [1]byte
	if _, err := io.ReadFull(c, kind[:]); err != nil {
		return err
	}
	return exchange(c, kind[0], true, 0)
}

// play connects and plays the client's part.
func play(t *testing.T, from *lab.Space, to netip.AddrPort, kind byte, seed uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := from.Dial(ctx, to, lab.Socket{RcvBuf: 32 << 10})
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Error(err)
	}
	_, err = c.Write([]byte{kind})
	if err == nil {
		err = exchange(c, kind, false, seed)
	}
	if err != nil {
		t.Errorf("%c from %v to %v: %v", kind, c.LocalAddr(), to, err)
	}
}

// exchange does one of: b, bulk both ways; r, requests and responses; u, the
// client sends little and shuts, the server sends much; d, the mirror.
func exchange(c net.Conn, kind byte, server bool, seed uint64) error {
	tcp := c.(*net.TCPConn)
	send := func(n int) error {
		if err := sendSeeded(tcp, n, seed); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		return tcp.CloseWrite()
	}
	both := func(out, in int) error {
		sent := make(chan error, 1)
		go func() { sent <- send(out) }()
		err := receiveSeeded(tcp, in)
		return join(err, <-sent)
	}
	switch {
	case kind == 'b':
		return both(bulkBytes/4, bulkBytes/4)
	case kind == 'u' && !server, kind == 'd' && server:
		if err := send(1 << 20); err != nil {
			return err
		}
		return receiveSeeded(tcp, bulkBytes/4)
	case kind == 'u', kind == 'd':
		if err := receiveSeeded(tcp, 1<<20); err != nil {
			return err
		}
		return send(bulkBytes / 4)
	case server:
		_, err := io.Copy(tcp, tcp)
		return join(err, tcp.CloseWrite())
	}
	msg, back := make([]byte, 100), make([]byte, 100)
	for i := range rounds {
		msg[0], msg[99] = byte(i), byte(i>>8)
		if _, err := tcp.Write(msg); err != nil {
			return err
		}
		if _, err := io.ReadFull(tcp, back); err != nil {
			return err
		}
		if !bytes.Equal(msg, back) {
			return fmt.Errorf("exchange %d came back changed", i)
		}
	}
	if err := tcp.CloseWrite(); err != nil {
		return err
	}
	if n, err := io.Copy(io.Discard, tcp); n > 0 || err != nil {
		return fmt.Errorf("%d bytes behind the last answer, %v", n, err)
	}
	return nil
}

func join(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// sendSeeded sends the seed's 8 bytes, n-40 bytes that follow from it, and their
// hash.
func sendSeeded(w io.Writer, n int, seed uint64) error {
	src := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)})
	sum := sha256.New()
	buf := make([]byte, 256<<10)
	for left := n - sha256.Size; left > 0; {
		part := buf[:min(left, len(buf))]
		src.Read(part)
		sum.Write(part)
		if _, err := w.Write(part); err != nil {
			return err
		}
		left -= len(part)
	}
	_, err := w.Write(sum.Sum(nil))
	return err
}

// receiveSeeded reads to the FIN: n bytes of which the last ones are the hash of
// the others. It reads slowly enough that the sender has to wait.
func receiveSeeded(r io.Reader, n int) error {
	sum := sha256.New()
	buf := make([]byte, 32<<10)
	var tail []byte
	got := 0
	for {
		k, err := r.Read(buf)
		got += k
		tail = append(tail, buf[:k]...)
		if cut := len(tail) - sha256.Size; cut > 0 {
			sum.Write(tail[:cut])
			tail = append(tail[:0], tail[cut:]...)
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("receive, after %d of %d bytes: %w", got, n, err)
		}
	}
	if got != n {
		return fmt.Errorf("received %d bytes; want %d", got, n)
	}
	if !bytes.Equal(tail, sum.Sum(nil)) {
		return fmt.Errorf("hash of %d bytes differs", n)
	}
	return nil
}
