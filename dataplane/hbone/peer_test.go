package hbone_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/sluice-mesh/sluice/dataplane/end"
	"github.com/sluice-mesh/sluice/dataplane/flow"
	"github.com/sluice-mesh/sluice/dataplane/gcm"
	"github.com/sluice-mesh/sluice/dataplane/h2"
	"github.com/sluice-mesh/sluice/dataplane/hbone"
	"github.com/sluice-mesh/sluice/dataplane/identity"
	"github.com/sluice-mesh/sluice/dataplane/loop"
	"github.com/sluice-mesh/sluice/dataplane/tlsrec"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/internal/testkit/onloop"
)

var (
	here  = flow.Identity{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "cart"}
	there = flow.Identity{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "web"}
)

// A node is one side of tunnels under test: its loop, gate and certificates.
type node struct {
	t       *testing.T
	loop    *loop.Loop
	gate    *tlsrec.Gate
	certs   map[flow.Identity]*identity.Certificate
	closed  chan flow.CloseReason // of tunnels
	peers   chan *net.TCPConn     // the far sides of tunnels that were dialled
	conns   chan *hbone.Stream    // streams that a peer opened
	fill    int                   // bytes that are sent on each stream; 0 sends back what comes
	drop    bool                  // what comes is read and dropped
	dropped chan int              // how much that was
	refuse  int                   // the status for them; 0 takes them
}

func newNode(t *testing.T) *node {
	t.Helper()
	ca, err := identity.NewCA("cluster.local", 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	n := &node{
		t: t, certs: map[flow.Identity]*identity.Certificate{},
		closed: make(chan flow.CloseReason, 8), peers: make(chan *net.TCPConn, 8), conns: make(chan *hbone.Stream, 8),
		dropped: make(chan int, 1),
	}
	for _, id := range []flow.Identity{here, there} {
		if n.certs[id], err = ca.Issue(id, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n.gate, err = tlsrec.NewGate(tlsrec.Limits{PanicEnds: true}); err != nil {
		t.Fatal(err)
	}
	n.loop = onloop.Start(t, 0, loop.Config{PanicEnds: true})
	t.Cleanup(func() {
		onloop.Do(t, n.loop, func() {
			for _, tn := range hbone.Of(n.loop, n) {
				tn.Fail(flow.CloseDrain, hbone.ErrClosing)
			}
		})
		n.gate.Close()
	})
	return n
}

// TunnelClosed notes the end of a tunnel.
func (n *node) TunnelClosed(_ *hbone.Tunnel, why flow.CloseReason, _ error) { n.closed <- why }

// DialTunnel connects a tunnel to a peer that the test plays.
func (n *node) DialTunnel(l *loop.Loop, k hbone.Key, t *hbone.Tunnel) {
	far, near := testkit.TCPPair(n.t, testkit.TCPOptions{})
	near.MoveTo(t.Socket().FD())
	if err := t.Socket().Register(l, end.Server, nobody{}, true); err != nil {
		t.Fail(flow.CloseInternal, err)
		return
	}
	t.Begin(nil, n.gate, n.certs[here].Client([]flow.Identity{k.Peer}), here)
	n.peers <- far
}

// nobody is told of a socket until its tunnel is.
type nobody struct{}

func (nobody) Readable()                     {}
func (nobody) Writable()                     {}
func (nobody) Ended(flow.CloseReason, error) {}

// Connect takes a stream, or refuses it.
func (n *node) Connect(s *hbone.Stream, r *h2.Request) {
	if n.refuse != 0 {
		s.Refuse(n.refuse)
		return
	}
	s.Accept([]byte("service.name=" + string(r.Authority)))
	if n.fill > 0 {
		f := &source{s: s, left: n.fill}
		s.Attach(f)
		f.Writable()
	} else if n.drop {
		s.Attach(&dropper{s: s, told: n.dropped})
	} else {
		s.Attach(&echo{s})
	}
	n.conns <- s
}

// echo sends back what comes on a stream.
type echo struct{ s *hbone.Stream }

func (e *echo) Readable() {
	for {
		_, next, err := e.s.Pull(e.s, 1<<20)
		if err != nil || next == end.ForReadable || next == end.ForRoom {
			return
		}
		if next == end.Ended {
			e.s.Close()
			return
		}
	}
}
func (e *echo) Writable()                     { e.Readable() }
func (e *echo) Ended(flow.CloseReason, error) { e.s.Close() }

// dropper reads a stream and keeps nothing.
type dropper struct {
	s    *hbone.Stream
	n    int
	told chan int
}

func (d *dropper) Readable() {
	for {
		n, next, err := d.s.Pull(d, 1<<20)
		d.n += n
		switch {
		case next == end.Ended && err == nil:
			d.told <- d.n
			d.s.Close()
			return
		case next != end.Nothing:
			return
		}
	}
}
func (d *dropper) Writable()                     {}
func (d *dropper) Ended(flow.CloseReason, error) { d.s.Close() }
func (d *dropper) Room(int) [][]byte             { return nil }
func (d *dropper) Commit(int) error              { return nil }
func (d *dropper) Unsent() int                   { return 0 }
func (d *dropper) Finish(flow.CloseReason)       {}
func (d *dropper) Write(bufs [][]byte) (n int, _ error) {
	for _, b := range bufs {
		n += len(b)
	}
	return n, nil
}

// serve hands a connection to the node as one that came to its port for tunnels,
// before it has a certificate; accept gives it one.
func (n *node) serve() (far *net.TCPConn, accept func()) {
	n.t.Helper()
	far, near := testkit.TCPPair(n.t, testkit.TCPOptions{})
	var t *hbone.Tunnel
	onloop.Do(n.t, n.loop, func() {
		var err error
		remote, local := netip.MustParseAddrPort("192.0.2.1:40000"), netip.MustParseAddrPort("192.0.2.2:15008")
		if t, err = hbone.Serve(n.loop, near, remote, local, gcm.Best(), n, n); err != nil {
			n.t.Error(err)
		}
	})
	return far, func() {
		onloop.Do(n.t, n.loop, func() { t.Accept(n.gate, n.certs[there].Server(), there, tlsrec.Origin{}) })
	}
}

// A peer speaks HTTP/2 by x/net's framer over crypto/tls.
type peer struct {
	*http2.Framer
	t    *testing.T
	conn *tls.Conn
	enc  *hpack.Encoder
	buf  *bytes.Buffer
}

func newPeer(t *testing.T, c net.Conn, role func(net.Conn, *tls.Config) *tls.Conn, cfg *tls.Config) *peer {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(testkit.Wait)); err != nil {
		t.Fatal(err)
	}
	s := role(c, cfg)
	if err := s.Handshake(); err != nil {
		t.Fatalf("handshake: %v", err)
	}
	p := &peer{Framer: http2.NewFramer(s, s), t: t, conn: s, buf: new(bytes.Buffer)}
	p.enc = hpack.NewEncoder(p.buf)
	p.SetMaxReadFrameSize(1 << 20)
	p.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	return p
}

// hello says hello; a client's preface comes before it.
func (p *peer) hello(client bool, settings ...http2.Setting) {
	p.t.Helper()
	if client {
		if _, err := io.WriteString(p.conn, http2.ClientPreface); err != nil {
			p.t.Fatal(err)
		}
	} else {
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(p.conn, preface); err != nil || string(preface) != http2.ClientPreface {
			p.t.Fatalf("preface %q, %v", preface, err)
		}
	}
	if err := p.WriteSettings(settings...); err != nil {
		p.t.Fatal(err)
	}
}

// headers sends a block.
func (p *peer) headers(id uint32, last bool, pairs ...string) {
	p.t.Helper()
	p.buf.Reset()
	for i := 0; i < len(pairs); i += 2 {
		if err := p.enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]}); err != nil {
			p.t.Fatal(err)
		}
	}
	err := p.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.buf.Bytes(), EndHeaders: true, EndStream: last})
	if err != nil {
		p.t.Fatal(err)
	}
}

// next reads frames up to one that is about a stream, or GOAWAY.
func (p *peer) next() http2.Frame {
	p.t.Helper()
	for {
		f, err := p.ReadFrame()
		if err != nil {
			p.t.Fatalf("read a frame: %v", err)
		}
		if _, away := f.(*http2.GoAwayFrame); away || f.Header().StreamID != 0 {
			return f
		}
	}
}

// An answer is what was told of a stream that was opened.
type answer struct {
	why flow.CloseReason
	err error
}

type answers chan answer

func (a answers) Opened(why flow.CloseReason, err error) { a <- answer{why, err} }

// status is what a CONNECT was answered with.
func status(t *testing.T, f http2.Frame) string {
	t.Helper()
	h, ok := f.(*http2.MetaHeadersFrame)
	if !ok {
		t.Fatalf("frame %v; want HEADERS", f)
	}
	return h.PseudoValue("status")
}
