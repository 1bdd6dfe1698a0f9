package agent_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/netns"
	"github.com/sluice-mesh/sluice/dataplane/zds"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

func later() time.Time { return time.Now().Add(testkit.Wait) }

// hello connects by hand and says hello; nothing answers unless the test does.
func (a *running) hello() *zds.Conn {
	a.t.Helper()
	c := a.dial()
	a.t.Cleanup(func() { c.Close() })
	if err := c.SendHello(zds.Hello{Version: zds.V1, Modes: []string{"direct"}}, later()); err != nil {
		a.t.Fatal(err)
	}
	return c
}

// next reads one request by hand and closes its descriptor.
func next(t *testing.T, c *zds.Conn) string {
	t.Helper()
	type read struct {
		what string
		err  error
	}
	got := make(chan read, 1)
	go func() {
		r, fd, err := c.ReadRequest()
		if fd != nil {
			fd.Close()
		}
		got <- read{strings.TrimSpace(r.Kind.String() + " " + r.UID), err}
	}()
	r := testkit.Receive(t, testkit.Wait, "a request", got)
	if r.err != nil {
		return r.err.Error()
	}
	return r.what
}

func ack(t *testing.T, c *zds.Conn) {
	t.Helper()
	if err := c.Respond("", later()); err != nil {
		t.Fatal(err)
	}
}

// New pods go to the newest proxy that has its snapshot, and to the one before
// when that one goes; what is deleted is told to all.
func TestLabNewestProxy(t *testing.T) {
	lab.Require(t)
	testkit.NoLeaks(t)
	cfg := quick(t)
	cfg.AskWait = time.Second
	a := begin(t, cfg)
	first := a.connect("direct")
	a.waitFor(first)
	one, two, three := pod(t, "one"), pod(t, "two"), pod(t, "three")
	a.mustEnroll("one", one)
	second := a.connect("direct")
	second.wait("snapshot_sent")
	a.synced(2)
	if got := second.heard(); got != "add one, snapshot_sent" {
		t.Errorf("second proxy heard %q", got)
	}
	a.mustEnroll("two", two)
	if got := first.heard() + " | " + second.heard(); got != "add one | add two" {
		t.Errorf("proxies heard %q; want the second pod to go to the second proxy", got)
	}
	a.want("one:enrolled+ two:enrolled+")

	silent := a.hello() // is asked for its snapshot, and says nothing to it
	if got := next(t, silent); got != "add one" {
		t.Fatalf("silent proxy was asked %q", got)
	}
	a.mustEnroll("three", three)
	if got := second.heard(); got != "add three" {
		t.Errorf("second proxy heard %q; a silent one must not take pods away", got)
	}
	if got := next(t, silent); got != io.EOF.Error() {
		t.Errorf("silent proxy heard %q; want its connection closed", got)
	}
	if err := a.unenroll("one", false); err != nil {
		t.Fatal(err)
	}
	if got := first.heard() + " | " + second.heard(); got != "del one | del one" {
		t.Errorf("proxies heard %q; want both to be told", got)
	}

	second.kill()
	first.wait("add three") // the first is the newest again, and lacks two pods
	a.want("three:enrolled+ two:enrolled+")
	if got := first.heard(); got != "add three, add two" && got != "add two, add three" {
		t.Errorf("first proxy heard %q; want what it lacks", got)
	}
}

// A pod that comes while a proxy gets its snapshot is not lost, whichever proxy
// is the newest when.
func TestLabEnrollDuringSnapshot(t *testing.T) {
	lab.Require(t)
	testkit.NoLeaks(t)
	cfg := quick(t)
	cfg.Retry = time.Hour // what is missing is noticed at once, not at the next look
	a := begin(t, cfg)
	first := a.connect("direct")
	a.waitFor(first)
	one, two := pod(t, "one"), pod(t, "two")
	a.mustEnroll("one", one)
	slow := a.hello()
	if got := next(t, slow); got != "add one" {
		t.Fatalf("asked %q", got)
	}
	a.mustEnroll("two", two) // to the first proxy
	if got := first.heard(); got != "add one, add two" {
		t.Errorf("first proxy heard %q", got)
	}
	gone := make(chan error, 1)
	go func() { gone <- a.unenroll("one", false) }() // waits for both proxies
	first.wait("del one")
	ack(t, slow)
	if got := next(t, slow); got != "snapshot_sent" {
		t.Fatalf("asked %q", got)
	}
	ack(t, slow)
	heard := map[string]bool{}
	for range 2 {
		heard[next(t, slow)] = true
		ack(t, slow)
	}
	if !heard["del one"] || !heard["add two"] {
		t.Errorf("after its snapshot the proxy heard %v; want what has changed meanwhile", heard)
	}
	if err := testkit.Receive(t, testkit.Wait, "leaving", gone); err != nil {
		t.Error(err)
	}
	a.want("two:enrolled+")
}

// A pod of the snapshot that a proxy can't start is asked for again until it can.
func TestLabSnapshotRefused(t *testing.T) {
	a, first := setup(t)
	one := pod(t, "one")
	a.mustEnroll("one", one)
	first.kill()
	healthy := make(chan struct{})
	second := a.connectWith(&proxy{onAdd: func(string, *netns.Handle) string {
		select {
		case <-healthy:
			return ""
		default:
			return "failure to start proxy : not yet"
		}
	}}, "direct")
	testkit.Eventually(t, testkit.Wait, "the error in the list", func() bool {
		p := a.list().Pods[0]
		return !p.Acked && strings.Contains(p.LastError, "not yet")
	})
	close(healthy)
	a.want("one:enrolled+")
	if p := a.list().Pods[0]; p.LastError != "" || !second.serves("one") {
		t.Errorf("list says %+v", p)
	}
}

// What a proxy may do wrong, each of which ends its connection and nothing else.
func TestLabBadProxies(t *testing.T) {
	lab.Require(t)
	testkit.NoLeaks(t)
	cfg := quick(t)
	cfg.HelloWait, cfg.AskWait = 200*time.Millisecond, time.Second
	a := begin(t, cfg)
	good := a.connect("direct")
	a.waitFor(good)
	one := pod(t, "one")
	a.mustEnroll("one", one)
	ns := opened(t, one)
	for _, tt := range []struct {
		name string
		play func(t *testing.T) *zds.Conn
	}{
		{"no hello", func(t *testing.T) *zds.Conn { return a.dial() }},
		{"hangs up at once", func(t *testing.T) *zds.Conn { c := a.dial(); c.Close(); return c }},
		{"no answer in the snapshot", func(t *testing.T) *zds.Conn {
			c := a.hello()
			next(t, c)
			return c
		}},
		{"refuses the snapshot", func(t *testing.T) *zds.Conn {
			c := a.hello()
			next(t, c)
			ack(t, c)
			next(t, c)
			if err := c.Respond("failure to process message : no", later()); err != nil {
				t.Fatal(err)
			}
			return c
		}},
		{"speaks unasked", func(t *testing.T) *zds.Conn {
			c := a.hello()
			next(t, c)
			ack(t, c)
			next(t, c)
			ack(t, c)
			ack(t, c)
			return c
		}},
		{"a request instead of an answer", func(t *testing.T) *zds.Conn {
			c := a.hello()
			next(t, c)
			if err := c.SendRequest(zds.Request{Kind: zds.Del, UID: "x"}, nil, later()); err != nil {
				t.Fatal(err)
			}
			return c
		}},
		{"an answer with a descriptor", func(t *testing.T) *zds.Conn {
			c := a.hello()
			next(t, c)
			if err := c.SendRequest(zds.Request{Kind: zds.Add, UID: "x", Info: &zds.Info{}}, ns.FD(), later()); err != nil {
				t.Fatal(err)
			}
			return c
		}},
		{"two hellos", func(t *testing.T) *zds.Conn {
			c := a.hello()
			if err := c.SendHello(zds.Hello{Version: zds.V1}, later()); err != nil {
				t.Fatal(err)
			}
			return c
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := a.list().Stats
			c := tt.play(t)
			defer c.Close()
			testkit.Eventually(t, testkit.Wait, "the agent to hang up", func() bool {
				_, fd, err := c.ReadRequest()
				if fd != nil {
					fd.Close()
				}
				return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
			})
			testkit.Eventually(t, testkit.Wait, "the counter", func() bool {
				return a.list().Stats.LinkErrors == before.LinkErrors+1
			})
		})
	}
	a.want("one:enrolled+")
	if !good.serves("one") {
		t.Error("the good proxy lost its pod")
	}
	two := pod(t, "two")
	a.mustEnroll("two", two)
}

// Proxies are let in one after the other, and no more than there is room for.
func TestLabAcceptLimits(t *testing.T) {
	lab.Require(t)
	testkit.NoLeaks(t)
	cfg := quick(t)
	cfg.AcceptEvery = 50 * time.Millisecond
	a := begin(t, cfg)
	start := time.Now()
	for range 4 {
		a.connect("direct")
	}
	testkit.Eventually(t, testkit.Wait, "four proxies", func() bool { return a.list().Stats.Links == 4 })
	if took := time.Since(start); took < 3*cfg.AcceptEvery {
		t.Errorf("four were let in within %v; want at least %v", took, 3*cfg.AcceptEvery)
	}
	a.stop()

	cfg.AcceptEvery, cfg.HelloWait = time.Microsecond, time.Hour
	a = begin(t, cfg)
	var all []*proxy
	for range 16 {
		all = append(all, a.connect("direct"))
	}
	for _, p := range all {
		p.wait("snapshot_sent")
	}
	c := a.dial()
	defer c.Close()
	if _, _, err := c.ReadRequest(); err == nil {
		t.Error("a seventeenth proxy was served")
	}
	if s := a.list().Stats; s.LinksRefused != 1 {
		t.Errorf("counters are %+v; want one refused", s)
	}
}

// Many pods come and go at once, two to a namespace's descriptor.
func TestLabManyAtOnce(t *testing.T) {
	a, p := setup(t)
	const pods = 12
	var paths []string
	for i := range pods {
		paths = append(paths, pod(t, fmt.Sprint("many", i)))
	}
	errs := make(chan error, 2*pods)
	for i, path := range paths {
		for range 2 { // the second finds it, or is told that it is under way
			go func() { errs <- a.enroll(fmt.Sprint("pod", i), path) }()
		}
	}
	for range 2 * pods {
		if err := testkit.Receive(t, testkit.Wait, "enrolment", errs); err != nil && !strings.Contains(err.Error(), "another request") {
			t.Error(err)
		}
	}
	if s := a.list(); len(s.Pods) != pods || s.Stats.Enrolled != pods {
		t.Errorf("%d pods, counters %+v; want %d", len(s.Pods), s.Stats, pods)
	}
	for i := range paths {
		go func() { errs <- a.unenroll(fmt.Sprint("pod", i), false) }()
	}
	for range pods {
		if err := testkit.Receive(t, testkit.Wait, "leaving", errs); err != nil {
			t.Error(err)
		}
	}
	a.want("")
	for i, path := range paths {
		if got := kernel(t, path); got != "" || p.serves(fmt.Sprint("pod", i)) {
			t.Errorf("%s: left behind: %q", path, got)
		}
	}
}
