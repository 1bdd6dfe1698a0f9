package pods_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/pods"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"google.golang.org/protobuf/proto"
)

// Each test of this file is one row of the table that says what a message does
// before and after the snapshot.

func TestLabAdd(t *testing.T) {
	b := start(t, quick)
	b.ready(false)
	b.ok(add("a"), namespace(t).FD())
	b.want("a:Up ")
	b.ready(false) // up, but the snapshot is not complete
	b.ok(snapshotSent())
	b.ready(true)
	b.want("a:Up ")
	b.ok(add("b"), namespace(t).FD())
	b.want("a:Up b:Up ")
	b.ready(true)
	got := b.m.Snapshot()[1].Pod
	if want := (pods.Pod{UID: "b", Name: "name-b", Namespace: "ns", ServiceAccount: "sa"}); got != want {
		t.Errorf("pod is %+v; want %+v", got, want)
	}
	if s := b.m.Stats(); s.Active != 2 || s.Started != 2 || s.Stopped != 0 || s.Snapshots != 1 || s.Connects != 1 {
		t.Errorf("counters are %+v", s)
	}
}

func TestLabAddSameNamespaceIsNoop(t *testing.T) {
	b := start(t, quick)
	ns := namespace(t)
	b.ok(add("a"), ns.FD())
	b.ok(add("a"), ns.FD())
	b.ok(snapshotSent())
	b.ok(add("a"), ns.FD())
	b.want("a:Up ")
	if n := b.h.started(); n != 1 {
		t.Errorf("started %d times; want once", n)
	}
}

func TestLabAddOtherNamespaceReplaces(t *testing.T) {
	b := start(t, quick)
	b.ok(snapshotSent())
	b.ok(add("a"), namespace(t).FD())
	old := b.h.last("a")
	old.flow(+1)
	fresh := namespace(t)
	b.ok(add("a"), fresh.FD())
	b.want("a:Up a:Draining ")
	if s := b.m.Snapshot(); s[0].Netns != fresh.ID() || s[1].Netns != old.id {
		t.Errorf("up in %v, draining in %v; want %v and %v", s[0].Netns, s[1].Netns, fresh.ID(), old.id)
	}
	if d := old.drains(); len(d) != 1 || d[0] != quick.PodDrain {
		t.Errorf("old one was drained with %v; want once with %v", d, quick.PodDrain)
	}
	old.flow(-1)
	b.want("a:Up ")
}

func TestLabAddWithoutInfo(t *testing.T) {
	t.Run("before snapshot", func(t *testing.T) {
		b := start(t, quick)
		b.breach(addWithoutInfo("a"), namespace(t).FD())
	})
	t.Run("after snapshot", func(t *testing.T) {
		b := start(t, quick)
		b.ok(snapshotSent())
		b.breach(addWithoutInfo("a"), namespace(t).FD())
	})
}

// breach sends what breaks the protocol and wants what must follow.
func (b *bench) breach(m proto.Message, fds ...*sys.FD) {
	b.t.Helper()
	if failure := b.ask(m, fds...); !strings.HasPrefix(failure, "failure to process message : ") {
		b.t.Errorf("answer is %q; want a failure to process message", failure)
	}
	b.closed()
	b.ready(false)
	err := testkit.Receive(b.t, testkit.Wait, "end of the manager", b.end)
	if _, ok := errors.AsType[*pods.ProtocolError](err); !ok {
		b.t.Errorf("Run returned %v; want a protocol error", err)
	}
	if s := b.m.Stats(); s.ProtocolErrors != 1 {
		b.t.Errorf("counters are %+v; want one protocol error", s)
	}
}

func TestLabKeep(t *testing.T) {
	b := start(t, quick)
	b.ok(add("a"), namespace(t).FD())
	b.ok(add("b"), namespace(t).FD())
	b.ok(snapshotSent())
	b.hangUp()
	b.accept()
	b.ready(false)
	b.want("a:Up b:Up ") // both go on without an agent
	b.ok(keep("a"))
	b.ok(keep("unknown"))
	b.want("a:Up b:Up ")
	b.ok(snapshotSent())
	b.want("a:Up ")
	b.ready(true)
	if n := b.h.started(); n != 2 {
		t.Errorf("%d starts; want the first two only", n)
	}
	b.breach(keep("a")) // after the snapshot
}

func TestLabDelBeforeSnapshot(t *testing.T) {
	b := start(t, quick)
	b.ok(add("a"), namespace(t).FD())
	b.ok(add("b"), namespace(t).FD())
	b.ok(del("a"))
	b.ok(del("unknown"))
	if d := b.h.last("a").drains(); len(d) != 0 {
		t.Errorf("a was drained (%v) before the snapshot", d)
	}
	b.want("a:Up b:Up ")
	b.ok(snapshotSent())
	b.want("b:Up ")
	b.ready(true)
}

func TestLabDelBeforeSnapshotOfPending(t *testing.T) {
	b := start(t, quick)
	ns := namespace(t)
	occupy(t, ns)
	b.nack(add("a"), ns.FD())
	b.want("a:Pending ")
	b.ok(del("a"))
	b.want("")
	b.ok(snapshotSent())
	b.ready(true)
}

// nack asks and wants the start of a pod to fail; the connection stays.
func (b *bench) nack(m proto.Message, fds ...*sys.FD) {
	b.t.Helper()
	if failure := b.ask(m, fds...); !strings.HasPrefix(failure, "failure to start proxy : ") {
		b.t.Errorf("answer is %q; want a failure to start proxy", failure)
	}
}

func TestLabDelBeforeSnapshotThenAddAgain(t *testing.T) {
	b := start(t, quick)
	ns := namespace(t)
	b.ok(add("a"), ns.FD())
	b.ok(del("a"))
	b.ok(add("a"), ns.FD())
	b.ok(snapshotSent())
	b.want("a:Up ")
	if d := b.h.last("a").drains(); len(d) != 0 {
		t.Errorf("a was drained (%v) though it was added again", d)
	}
}

func TestLabDelAfterSnapshot(t *testing.T) {
	b := start(t, quick)
	b.ok(snapshotSent())
	ns := namespace(t)
	b.ok(add("a"), ns.FD())
	old := b.h.last("a")
	old.flow(+1)
	b.ok(del("a"))
	b.want("a:Draining ")
	if d := old.drains(); len(d) != 1 || d[0] != quick.PodDrain {
		t.Errorf("drained with %v; want once with %v", d, quick.PodDrain)
	}
	b.ready(true)
	b.ok(del("unknown"))
	b.ok(del("a")) // nothing of it is up any more
	b.ok(add("a"), ns.FD())
	b.want("a:Up a:Draining ")
	old.flow(-1)
	b.want("a:Up ")
	if s := b.m.Stats(); s.Started != 2 || s.Stopped != 1 || s.Active != 1 || s.Draining != 0 {
		t.Errorf("counters are %+v", s)
	}
}

func TestLabDelAfterSnapshotOfPending(t *testing.T) {
	b := start(t, quick)
	b.ok(snapshotSent())
	ns := namespace(t)
	occupy(t, ns)
	b.nack(add("a"), ns.FD())
	b.ready(false)
	b.ok(del("a"))
	b.want("")
	b.ready(true)
}

func TestLabSnapshotSent(t *testing.T) {
	b := start(t, quick)
	for _, uid := range []string{"a", "b", "c"} {
		b.ok(add(uid), namespace(t).FD())
	}
	b.ok(snapshotSent())
	b.hangUp()
	b.accept()
	c := b.h.last("c")
	c.flow(+1)
	b.ok(keep("b"))
	b.ok(snapshotSent())
	b.want("b:Up c:Draining ")
	c.flow(-1)
	b.want("b:Up ")
	b.breach(snapshotSent()) // a second one on this connection
}

func TestLabStartFailureThenRetry(t *testing.T) {
	cfg := quick
	cfg.Retry = 5 * time.Millisecond
	b := start(t, cfg)
	ns := namespace(t)
	l := occupy(t, ns)
	if failure := b.ask(add("a"), ns.FD()); !strings.Contains(failure, "failure to start proxy : ") || !strings.Contains(failure, "in use") {
		t.Errorf("answer is %q; want the reason", failure)
	}
	b.ok(snapshotSent()) // the connection is kept
	b.ready(false)
	testkit.Eventually(t, testkit.Wait, "three more tries", func() bool { return b.h.started() >= 4 })
	if s := b.m.Snapshot(); len(s) != 1 || s[0].State != pods.Pending || !strings.Contains(s[0].LastErr, "in use") {
		t.Errorf("snapshot is %+v; want a pending pod and why", s)
	}
	b.ok(del("unknown")) // retries take no message away
	l.Close()
	b.want("a:Up ")
	testkit.Eventually(t, testkit.Wait, "readiness", b.m.Ready)
	if s := b.m.Stats(); s.StartErrors < 4 || s.Started != 1 || s.Pending != 0 {
		t.Errorf("counters are %+v", s)
	}
}

func TestLabBadPacket(t *testing.T) {
	ns := namespace(t)
	long := del(strings.Repeat("u", 2000))
	for _, tt := range []struct {
		name string
		send func(b *bench)
	}{
		{"add without descriptor", func(b *bench) { b.send(add("a")) }},
		{"add with two", func(b *bench) { b.send(add("a"), ns.FD(), ns.FD()) }},
		{"keep with descriptor", func(b *bench) { b.send(keep("a"), ns.FD()) }},
		{"too long", func(b *bench) { b.send(long) }},
		{"garbage", func(b *bench) { mustSend(b.t, b, []byte{0xff, 0xff}) }},
		{"no payload", func(b *bench) { mustSend(b.t, b, []byte{0x22, 0x00}) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := start(t, quick)
			b.ok(add("up"), ns.FD())
			b.ok(snapshotSent())
			b.ready(true)
			tt.send(b)
			if failure := b.answer(); !strings.HasPrefix(failure, "failure to read message : ") {
				t.Errorf("answer is %q; want a failure to read message", failure)
			}
			b.closed()
			b.accept() // it comes back
			b.ready(false)
			b.want("up:Up ")
			b.ok(keep("up"))
			b.ok(snapshotSent())
			b.ready(true)
			if s := b.m.Stats(); s.ReadErrors != 1 || s.ProtocolErrors != 0 || s.Connects != 2 {
				t.Errorf("counters are %+v", s)
			}
		})
	}
}

func mustSend(t *testing.T, b *bench, raw []byte) {
	t.Helper()
	if err := sys.SendPacket(b.c, raw); err != nil {
		t.Fatal(err)
	}
}

func TestLabAgentGoneBeforeTheAnswer(t *testing.T) {
	b := start(t, quick)
	b.send(add("a"), namespace(t).FD())
	b.hangUp() // the answer can't be sent
	b.accept()
	b.want("a:Up ")
	b.ok(snapshotSent()) // which does not name a
	b.want("")
}
