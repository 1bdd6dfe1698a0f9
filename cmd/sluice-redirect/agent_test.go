package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/redirect/agent"
)

func TestList(t *testing.T) {
	answer := agent.Answer{
		Pods: []agent.Status{
			{UID: "shop/web", Netns: "/run/netns/web", Mode: "direct", Phase: agent.Enrolled, Acked: true},
			{UID: "a-much-longer-uid", Netns: "/proc/17/ns/net", Mode: "direct", Phase: agent.Undoing, LastError: "undo: operation not permitted"},
		},
		Stats: agent.Stats{Enrolled: 1, Failed: 1, Retried: 7, Links: 2, Synced: 2, Nacks: 1},
	}
	var table, more bytes.Buffer
	if err := printPods(&table, answer, false); err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "list.golden", table.Bytes())
	if err := printPods(&more, answer, true); err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "list-counters.golden", more.Bytes())
}

// What is wrong with a command line is said before anybody is asked.
func TestAskingRefuses(t *testing.T) {
	for _, tt := range []struct {
		args string
		want string
	}{
		{"enroll --netns web", "name"},
		{"enroll --name w --namespace n --service-account s", "--netns NAME or PATH"},
		{"enroll --name w --namespace n --service-account s --netns web --pid 1", "either --netns"},
		{"enroll --name w --namespace n --service-account s --pid -1", "--pid is -1"},
		{"enroll --name w --namespace n --service-account s --netns sluice-none", "/run/netns/sluice-none"},
		{"enroll --name w --namespace n --service-account s --netns /etc/passwd", "/etc/passwd"},
		{"enroll --timeout 0s --name w --namespace n --service-account s --netns web", "--timeout is 0s"},
		{"unenroll", "say which pod"},
		{"unenroll a --uid b", "say which pod"},
		{"unenroll a b", "accepts at most 1"},
		{"list --timeout -1s", "--timeout"},
		{"list --socket /run/sluice-none/e.sock", "is the agent running"},
		{"agent --mode redirect", "redirect"},
		{"agent --proxy-wait -1s", "proxy wait"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			out, err := run(t, "", strings.Fields(tt.args)...)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %q, %v; want an error about %q", out, err, tt.want)
			}
		})
	}
}
