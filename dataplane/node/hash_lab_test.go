package node_test

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/metric"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// TestLabHashesSpliced and TestLabHashesCopied send seeded random bytes both ways
// at once to receivers that read in dribs and drabs from a tiny buffer: what
// arrives is what was sent, and the engine that is tested carried it.
func TestLabHashesSpliced(t *testing.T) {
	testHashes(t, settings{loops: 2}, metric.SplicedBytes, 64<<20) // promotion is within the hundredth
}

func TestLabHashesCopied(t *testing.T) {
	testHashes(t, settings{loops: 2, noSplice: true}, metric.CopiedBytes, 64<<20)
}

func testHashes(t *testing.T, set settings, engine metric.Counter, size int) {
	withProxies(t, lab.Simple(1, 1, 1), set, func(t *testing.T, l *lab.Lab, p []*proxy) {
		pod, host := l.Nodes[0].Pods[0].Space, l.Hosts[0].Space
		for _, way := range []struct {
			name     string
			from, to *lab.Space
			at       netip.AddrPort
		}{
			{"out", pod, host, host.At4(7000)},
			{"in", host, pod, pod.At6(7000)},
		} {
			by, up, down := p[0].count(engine), p[0].count(metric.UpBytes), p[0].count(metric.DownBytes)
			start := time.Now()
			hashes(t, way.from, way.to, way.at, size)
			t.Logf("%s: %d MiB each way in %v; promoted %d, demoted %d", way.name, size>>20, time.Since(start).Round(time.Millisecond),
				p[0].count(metric.Promoted), p[0].count(metric.Demoted))
			by, up, down = p[0].count(engine)-by, p[0].count(metric.UpBytes)-up, p[0].count(metric.DownBytes)-down
			if up != uint64(size) || down != uint64(size) {
				t.Errorf("%s: counted %d bytes up and %d down; want %d", way.name, up, down, size)
			}
			if by < 2*uint64(size)/100*99 {
				t.Errorf("%s: the engine carried %d of %d bytes; want 99 %%", way.name, by, 2*size)
			}
		}
	})
}

// hashes connects and has both sides send size bytes at once. They have them ready
// before: a sender that makes its bytes as it goes is not bulk to a fast proxy.
func hashes(t *testing.T, from, to *lab.Space, at netip.AddrPort, size int) {
	t.Helper()
	ln, err := to.Listen(at, lab.Socket{RcvBuf: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	var ready [2]bytes.Buffer
	for i := range ready {
		ready[i].Grow(size)
		if err := sendSeeded(&ready[i], size, uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	both := func(c *net.TCPConn, out *bytes.Buffer, in uint64) error {
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
			return err
		}
		sent := make(chan error, 1)
		go func() {
			_, err := c.Write(out.Bytes())
			sent <- join(err, c.CloseWrite())
		}()
		err := receiveSeeded(&dribble{r: c, rng: rand.New(rand.NewPCG(in, 0))}, size)
		return join(err, <-sent)
	}
	served := make(chan error, 1)
	go func() {
		c, err := ln.AcceptTCP()
		if err == nil {
			err = both(c, &ready[0], 1)
		}
		served <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	c, err := from.Dial(ctx, at, lab.Socket{RcvBuf: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	if err := both(c, &ready[1], 0); err != nil {
		t.Errorf("client: %v", err)
	}
	if err := testkit.Receive(t, 2*time.Minute, "the server", served); err != nil {
		t.Errorf("server: %v", err)
	}
}

// dribble reads 1 to 1500 bytes at a time and rests for 1 ms every 1000 reads.
type dribble struct {
	r   io.Reader
	rng *rand.Rand
	n   int
}

func (d *dribble) Read(p []byte) (int, error) {
	if d.n++; d.n%1000 == 0 {
		pause(time.Millisecond)
	}
	return d.r.Read(p[:min(len(p), 1+d.rng.IntN(1500))])
}

// pause is part of what a slow receiver does; nothing is waited for.
func pause(d time.Duration) { <-time.After(d) }
