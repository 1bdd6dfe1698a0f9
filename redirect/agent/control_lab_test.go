package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/dataplane/zds"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/redirect/agent"
)

// asStranger makes the test binary connect to a socket instead of running tests:
// it is started again as another user.
const asStranger = "SLUICE_AGENT_STRANGER"

func TestMain(m *testing.M) {
	if what := os.Getenv(asStranger); what != "" {
		os.Exit(stranger(what))
	}
	os.Exit(m.Run())
}

// stranger asks what it is not allowed to, and prints the answer.
func stranger(what string) int {
	kind, path, _ := strings.Cut(what, " ")
	if kind == "enroll" {
		_, err := agent.Ask(context.Background(), path, agent.Request{Op: agent.OpList}, nil)
		fmt.Println(err)
		return 0
	}
	if kind == "agent" {
		a, err := agent.New(agent.Config{ZDSSocket: path + "/z.sock", EnrollSocket: path + "/e.sock", StateDir: path}, slog.New(slog.DiscardHandler))
		if err == nil {
			err = a.Run(context.Background())
		}
		fmt.Println(err)
		return 0
	}
	c, err := zds.Dial(context.Background(), path)
	if err == nil {
		defer c.Close()
		_ = c.SendHello(zds.Hello{Version: zds.V1}, time.Now().Add(time.Second)) // it may be gone already
		if _, _, err = c.ReadRequest(); errors.Is(err, io.EOF) || errors.Is(err, sys.ECONNRESET) {
			err = errors.New("hung up") // a reset when our hello was not read
		}
	}
	fmt.Println(err)
	return 0
}

// Who is not root gets nothing, even where the socket's file would let them in.
func TestLabStrangers(t *testing.T) {
	a, _ := setup(t)
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	alone := oneUser(t)
	ask := func(what, want string) {
		t.Helper()
		if alone {
			return
		}
		cmd := exec.Command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", self)
		cmd.Env = append(os.Environ(), asStranger+"="+what, "GORACE=atexit_sleep_ms=0")
		out, err := cmd.CombinedOutput()
		switch {
		case err != nil:
			t.Fatalf("%v\n%s", err, out)
		case !strings.Contains(string(out), want):
			t.Errorf("%s: %q; want %q", what, out, want)
		}
	}
	open(t, self, a.cfg.EnrollSocket, a.cfg.ZDSSocket)
	for _, tt := range []struct{ what, mode0600, mode0666 string }{
		{"enroll " + a.cfg.EnrollSocket, "permission denied; run as root", "only root may enrol pods"},
		{"zds " + a.cfg.ZDSSocket, "permission denied", "hung up"},
	} {
		_, path, _ := strings.Cut(tt.what, " ")
		if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v; want 0600", path, fi.Mode(), err)
		}
		ask(tt.what, tt.mode0600)
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
		ask(tt.what, tt.mode0666)
	}
	ask("agent "+filepath.Join(filepath.Dir(a.cfg.EnrollSocket), "new"), "permission denied; run as root")
	if s := a.list().Stats; !alone && (s.Refused != 1 || s.LinksRefused != 1) {
		t.Errorf("counters are %+v; want one of each refused", s)
	}
}

// oneUser is true in a user namespace that has no second user (make lab).
func oneUser(t *testing.T) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(text))
	return len(f) == 3 && f[2] == "1"
}

// open lets everybody through to these files: their folders, which the test made,
// are root's alone.
func open(t *testing.T, files ...string) {
	t.Helper()
	for _, f := range files {
		for dir := parent(f); strings.HasPrefix(dir, os.TempDir()+"/"); dir = parent(dir) {
			fi, err := os.Stat(dir)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(dir, fi.Mode().Perm()|0o055); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func parent(path string) string { return path[:strings.LastIndex(path, "/")] }

// What a client may do wrong.
func TestLabBadClients(t *testing.T) {
	a, p := setup(t)
	web := pod(t, "web")
	ns := opened(t, web).FD()
	dial := func(t *testing.T) *net.UnixConn {
		t.Helper()
		c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Net: "unixpacket", Name: a.cfg.EnrollSocket})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(testkit.Wait))
		return c
	}
	list := []byte(`{"version":1,"op":"list"}`)
	for _, tt := range []struct {
		name string
		data []byte
		fds  []*sys.FD
		want string
	}{
		{"garbage", []byte("hello"), nil, "invalid character"},
		{"garbage with descriptor", []byte("hello"), []*sys.FD{ns}, "invalid character"},
		{"too long", make([]byte, 9<<10), []*sys.FD{ns}, "longer than the buffer"},
		{"descriptor with list", list, []*sys.FD{ns}, "goes with enroll only"},
		{"two descriptors", list, []*sys.FD{ns, ns}, "more than one descriptor"},
		{"other version", []byte(`{"version":9,"op":"list"}`), nil, "speaks 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := a.list().Stats.Refused
			c := dial(t)
			if err := sys.SendPacket(c, tt.data, tt.fds...); err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 64<<10)
			n, _, err := sys.ReceivePacket(c, buf)
			if err != nil {
				t.Fatal(err)
			}
			r, err := agent.ParseResponse(buf[:n])
			if err != nil || !strings.Contains(r.Error, tt.want) || r.More {
				t.Errorf("answer %+v, %v; want a refusal about %q", r, err, tt.want)
			}
			if _, _, err := sys.ReceivePacket(c, buf); !errors.Is(err, io.EOF) {
				t.Errorf("after the answer: %v; want the end", err)
			}
			if s := a.list().Stats; s.Refused != before+1 {
				t.Errorf("counters are %+v; want one more refused", s)
			}
		})
	}
	// Clients that say nothing, or go away, are in nobody's way.
	for range 20 {
		dial(t)
		dial(t).Close()
	}
	gone := dial(t)
	if err := sys.SendPacket(gone, []byte(`{"version":1,"op":"enroll","uid":"web","name":"n","namespace":"ns","service_account":"sa"}`), ns); err != nil {
		t.Fatal(err)
	}
	gone.Close()
	a.want("web:enrolled+") // what was asked for is done
	if !p.serves("web") {
		t.Error("proxy does not serve the pod")
	}
}

// A client may bound how long the agent takes; what is not done by then is undone.
func TestLabClientLimit(t *testing.T) {
	lab.Require(t)
	testkit.NoLeaks(t)
	cfg := quick(t)
	cfg.AskWait = time.Hour
	a := begin(t, cfg)
	slow := a.hello()
	if got := next(t, slow); got != "snapshot_sent" {
		t.Fatalf("asked %q", got)
	}
	ack(t, slow)
	web := pod(t, "web")
	failed := make(chan error, 1)
	go func() {
		r := request("web", web)
		r.TimeoutMS = 200
		_, err := a.ask(r, nil)
		failed <- err
	}()
	if got := next(t, slow); got != "add web" {
		t.Fatalf("asked %q", got)
	}
	testkit.Eventually(t, testkit.Wait, "the enrolment to be undone", func() bool {
		return len(a.list().Pods) == 1 && a.list().Pods[0].Phase == agent.Undoing
	})
	ack(t, slow) // too late, but not lost: the next answer is for what comes next
	if got := next(t, slow); got != "del web" {
		t.Fatalf("asked %q; want the pod taken back", got)
	}
	ack(t, slow)
	refused(t, "a slow proxy", testkit.Receive(t, testkit.Wait, "the client's answer", failed), "step announce", "200ms")
	nothing(t, a, web)
}

// An agent that is told to end in the middle of an enrolment takes it back.
func TestLabStopDuringEnrolment(t *testing.T) {
	lab.Require(t)
	testkit.NoLeaks(t)
	cfg := quick(t)
	cfg.AskWait = time.Hour
	a := begin(t, cfg)
	slow := a.hello()
	next(t, slow)
	ack(t, slow)
	web := pod(t, "web")
	failed := make(chan error, 1)
	go func() { failed <- a.enroll("web", web) }()
	if got := next(t, slow); got != "add web" {
		t.Fatalf("asked %q", got)
	}
	a.stop()
	refused(t, "an enrolment in an agent that ends", testkit.Receive(t, testkit.Wait, "the client's answer", failed), "step announce")
	if got := kernel(t, web); got != "" || len(a.files()) != 0 {
		t.Errorf("left behind: %q, files %v", got, a.files())
	}
}
