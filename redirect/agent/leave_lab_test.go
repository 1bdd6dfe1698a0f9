package agent_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// While flows live leaving is refused, and neither proxy nor rules notice.
func TestLabLeaveRefusedWhileFlowsLive(t *testing.T) {
	a, p := setup(t)
	web := pod(t, "web")
	a.mustEnroll("shop/web", web)
	if err := p.pin(opened(t, web)); err != nil {
		t.Fatal(err)
	}
	p.heard()
	refused(t, "leaving", a.unenroll("shop/web", false), "shop/web", "1 sockets of the proxy are live")
	if got := p.heard(); got != "" || kernel(t, web) != captured {
		t.Errorf("proxy heard %q, the pod has %q; want nothing to have happened", got, kernel(t, web))
	}
	a.want("shop/web:enrolled+")

	got, err := a.ask(unenrollRequest("shop/web", true), nil)
	if err != nil || !strings.Contains(got.Note, "1 sockets of the proxy were reset") {
		t.Errorf("forced: %+v, %v; want the socket to be reset", got, err)
	}
	if got := kernel(t, web); got != "" {
		t.Errorf("left behind: %q", got)
	}
	a.want("")
}

// A flow that begins after the look at flows and before the proxy lets go.
func TestLabLeaveMeetsNewFlow(t *testing.T) {
	lab.Require(t)
	testkit.NoLeaks(t)
	cfg := quick(t)
	cfg.LeaveWait = 500 * time.Millisecond
	a := begin(t, cfg)
	web := pod(t, "web")
	ns := opened(t, web)
	p := &proxy{}
	p.onDel = func(string) bool {
		if err := p.pin(ns); err != nil {
			t.Errorf("flow: %v", err)
		}
		return true
	}
	a.connectWith(p, "direct")
	a.waitFor(p)
	a.mustEnroll("shop/web", web)
	p.heard()
	refused(t, "leaving", a.unenroll("shop/web", false), "stays", "live")
	if got := p.heard(); got != "del shop/web, add shop/web" {
		t.Errorf("proxy heard %q; want it to get the pod back", got)
	}
	if got := kernel(t, web); got != captured {
		t.Errorf("the pod has %q; want everything: without rules the flow would go on in the clear", got)
	}
	a.want("shop/web:enrolled+")

	// One that ends soon is waited for.
	p.unpin()
	ended := make(chan struct{})
	p.mu.Lock()
	p.onDel = func(string) bool {
		if err := p.pin(ns); err != nil {
			t.Errorf("flow: %v", err)
		}
		time.AfterFunc(cfg.LeaveWait/5, func() { p.unpin(); close(ended) })
		return true
	}
	p.mu.Unlock()
	if err := a.unenroll("shop/web", false); err != nil {
		t.Errorf("leaving: %v; want it to wait for a flow that ends", err)
	}
	<-ended
	a.want("")
}

// A proxy that was told to let go and does not, or that nobody can tell.
func TestLabLeaveWhileSomebodyListens(t *testing.T) {
	a, p := setup(t)
	web := pod(t, "web")
	a.mustEnroll("shop/web", web)
	stray, err := listenIn(opened(t, web), 15006, sys.Mark)
	if err != nil {
		t.Fatal(err)
	}
	defer stray.Close()
	p.heard()
	refused(t, "leaving", a.unenroll("shop/web", false), "stays", "still listens", "15006")
	if got := p.heard(); got != "del shop/web, add shop/web" || kernel(t, web) != captured {
		t.Errorf("proxy heard %q, the pod has %q", got, kernel(t, web))
	}
	a.want("shop/web:enrolled+")
	if err := a.unenroll("shop/web", true); err != nil {
		t.Errorf("forced: %v", err)
	}
	if got := kernel(t, web); got != "" {
		t.Errorf("left behind: %q", got)
	}
}

// Leaving needs no proxy.
func TestLabLeaveWithoutProxy(t *testing.T) {
	a, p := setup(t)
	web := pod(t, "web")
	a.mustEnroll("shop/web", web)
	p.kill()
	a.want("shop/web:enrolled")
	if err := a.unenroll("shop/web", false); err != nil {
		t.Error(err)
	}
	if got := kernel(t, web); got != "" {
		t.Errorf("left behind: %q", got)
	}
}

// The rules can't be taken away: the pod goes on leaving by itself.
func TestLabLeaveIsRetried(t *testing.T) {
	a, p := setup(t)
	web := pod(t, "web")
	a.mustEnroll("shop/web", web)
	// What is there now goes by hand; what comes in its place can't be removed.
	command(t, "ip", "netns", "exec", base(web), "nft", "delete", "table", "inet", "sluice")
	release := hold(t, web)
	refused(t, "leaving", a.unenroll("shop/web", false), "tried again")
	a.want("shop/web:leaving")
	release()
	a.want("")
	if got := kernel(t, web); got != "" {
		t.Errorf("left behind: %q", got)
	}
	if p.serves("shop/web") {
		t.Error("proxy still serves the pod")
	}
	if s := a.list().Stats; s.Unenrolled != 1 {
		t.Errorf("counters are %+v; want one pod to have left", s)
	}
}
