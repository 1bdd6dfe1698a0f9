package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// pages answers with texts by path, as a proxy would.
func pages(t *testing.T, texts map[string]string) (addr string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := texts[r.URL.RequestURI()]
		if !ok {
			http.Error(w, "1 of 2 loops did not answer within 2s", http.StatusInternalServerError)
			return
		}
		_, _ = w.Write([]byte(text)) // the client fails when it fails
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// answer is a page that the proxy's own tests hold it to.
func answer(t *testing.T, golden string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../dataplane/admin/testdata", golden))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const (
	someLoops = `{"loops": [{"loop": 0, "answered": true, "gauges": {"sluice_flows_open": 2}}, {"loop": 1, "answered": true, "gauges": {"sluice_flows_open": 1}}]}`
	oneHangs  = `{"loops": [{"loop": 0, "answered": true}, {"loop": 1, "answered": false}]}`
)

func TestGetAndStatus(t *testing.T) {
	dump, flows := answer(t, "config_dump.golden"), answer(t, "flows.golden")
	addr := pages(t, map[string]string{"/config_dump": dump, "/flows": flows, "/loops": someLoops})
	for name, args := range map[string]string{"get-pods": "get pods", "status": "status"} {
		out, err := sluicectl(append(strings.Fields(args), "--admin", addr)...)
		if err != nil {
			t.Fatal(err)
		}
		testkit.Golden(t, name+".golden", out)
	}
	if out, err := sluicectl("get", "flows", "--admin", addr); err != nil || out != flows {
		t.Errorf("get flows: %q, %v", out, err)
	}
}

func TestAskFaults(t *testing.T) {
	nobody := httptest.NewServer(http.NotFoundHandler())
	gone := strings.TrimPrefix(nobody.URL, "http://")
	nobody.Close()
	for _, tt := range []struct{ args, addr, want string }{
		{"get flows", gone, "no proxy answers (--admin chooses another one): "},
		{"get flows", pages(t, nil), "the proxy's /flows: 500 Internal Server Error 1 of 2 loops did not answer within 2s"},
		{"get pods", pages(t, map[string]string{"/config_dump": "<html>"}), "the answer to /config_dump is not that of a proxy: "},
		{"get pods", "no such:host", "--admin no such:host: "},
		{"status", pages(t, map[string]string{"/loops": oneHangs}), "loop 1 does not answer; "},
		{"status", pages(t, map[string]string{"/loops": someLoops}), "the proxy's /config_dump: 500"},
	} {
		_, err := sluicectl(append(strings.Fields(tt.args), "--admin", tt.addr)...)
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v; want %q", tt.args, err, tt.want)
		}
	}
}

// The shipped programs understand each other.
func TestLabStatus(t *testing.T) {
	l := lab.New(t, lab.Simple(1, 0, 0))
	node := l.Nodes[0].Space
	lab.Start(t, node, lab.Program{Path: lab.Binary(t, "sluice"), Args: []string{"run", "--loops", "3", "--zds-socket", filepath.Join(t.TempDir(), "z.sock")}})
	ask := func(args ...string) (string, error) {
		return node.Output(t.Context(), lab.Binary(t, "sluicectl"), args...)
	}
	testkit.Try(t, testkit.Wait, "the proxy", func() error { _, err := ask("status"); return err })
	for args, want := range map[string]string{
		"status":    "build  ",
		"get pods":  "POD  STATE  ",
		"get flows": "POD  PATH ",
	} {
		if out, err := ask(strings.Fields(args)...); err != nil || !strings.HasPrefix(out, want) {
			t.Errorf("%s: %q, %v; want it to begin with %q", args, out, err, want)
		}
	}
	if out, err := ask("status"); err != nil || !strings.HasSuffix(out, "\nloops  3, all answer\nflows  0 open\npods   0 up, 0 pending, 0 draining\n") {
		t.Errorf("status: %q, %v", out, err)
	}
}
