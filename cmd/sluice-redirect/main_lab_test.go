package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/dataplane/sys"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/redirect/apply"
)

// snapshot is what capture makes in a namespace.
func snapshot(t *testing.T, s *lab.Space) string {
	t.Helper()
	return lab.Output(t, s, "nft", "list", "ruleset") +
		lab.Output(t, s, "ip", "rule") + lab.Output(t, s, "ip", "-6", "rule") +
		settled(lab.Output(t, s, "ip", "route", "show", "table", "all")) + settled(lab.Output(t, s, "ip", "-6", "route", "show", "table", "all")) +
		lab.Output(t, s, "sysctl", "net.ipv4.tcp_fwmark_accept", "net.ipv4.fwmark_reflect", "net.ipv6.fwmark_reflect")
}

// The script that plan prints does what apply does, and its undoing what remove
// does.
func TestLabPlanIsApply(t *testing.T) {
	testkit.NoLeaks(t)
	l := lab.New(t, lab.Simple(1, 1, 0))
	pod, state := l.Find("p1"), t.TempDir()
	before := snapshot(t, pod)

	out, err := run(t, "", "apply", "--netns", pod.Netns, "--dns", "--state-dir", state)
	if err != nil || !strings.Contains(out, "captured now; 0 older connections reset") || !strings.Contains(out, "proxy must listen") {
		t.Fatalf("apply: %q, %v", out, err)
	}
	applied := snapshot(t, pod)
	out, err = run(t, "", "apply", "--netns", pod.Path, "--dns", "--state-dir", state)
	if err != nil || !strings.Contains(out, "captured before") {
		t.Errorf("apply again: %q, %v", out, err)
	}
	out, err = run(t, "", "remove", "--netns", pod.Path, "--state-dir", state)
	if err != nil || !strings.Contains(out, "removed the table, 4 policy rules, 2 routes; 3 sysctls put back") {
		t.Errorf("remove: %q, %v", out, err)
	}
	if got := snapshot(t, pod); got != before {
		t.Errorf("was\n%s\nis\n%s", before, got)
	}

	sh := func(args ...string) {
		t.Helper()
		text, err := run(t, "", args...)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		lab.Output(t, pod, "sh", "-e", path)
	}
	sh("plan", "--dns")
	if got := snapshot(t, pod); got != applied {
		t.Errorf("apply makes\n%s\nand the plan\n%s", applied, got)
	}
	sh("plan", "--undo")
	if got := snapshot(t, pod); strings.Contains(got, "sluice") || strings.Contains(got, "lookup 100") {
		t.Errorf("undone:\n%s", got)
	}
}

func TestLabFeatures(t *testing.T) {
	testkit.NoLeaks(t)
	lab.Require(t)
	out, err := run(t, "", "features", "--expr", "tproxy")
	if err != nil || strings.Contains(out, "\nno ") || strings.Count(out, "yes  yes") < 14 {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = run(t, "", "features", "--expr", "sluice_none")
	if !errors.Is(err, sys.ErrUnsupported) || !strings.Contains(err.Error(), "sluice_none") {
		t.Errorf("got %v; want ErrUnsupported that names the expression\n%s", err, out)
	}
}

// The host's namespace, by its path, and a process without rights.
func TestLabRefuses(t *testing.T) {
	testkit.NoLeaks(t)
	l := lab.New(t, lab.Simple(1, 1, 0))
	pod, state := l.Find("p1"), t.TempDir()
	for _, command := range []string{"apply", "remove"} {
		if _, err := run(t, "", command, "--netns", "/proc/self/ns/net", "--state-dir", state); !errors.Is(err, apply.ErrHostNamespace) {
			t.Errorf("%s on the host: %v; want ErrHostNamespace", command, err)
		}
	}
	before := snapshot(t, pod)
	for _, args := range [][]string{
		{"apply", "--netns", pod.Path, "--state-dir", state},
		{"remove", "--netns", pod.Path, "--state-dir", state},
	} {
		// Root with an empty bounding set is left without a single capability.
		cmd := exec.CommandContext(t.Context(), "setpriv", append([]string{"--bounding-set=-all", "--inh-caps=-all", os.Args[0]}, args...)...)
		cmd.Env = append(os.Environ(), asProgram+"=1")
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "operation not permitted") || !strings.Contains(string(out), "run as root") {
			t.Errorf("%v without rights: %v, %s", args, err, out)
		}
	}
	if got := snapshot(t, pod); got != before {
		t.Errorf("was\n%s\nis\n%s", before, got)
	}
}

// settled takes out of ip's output what the kernel adds by itself, which it does
// when a link comes up: a moment after the lab is built.
func settled(routes string) string {
	var rest []string
	for line := range strings.Lines(routes) {
		if !strings.Contains(line, "proto kernel") {
			rest = append(rest, line)
		}
	}
	return strings.Join(rest, "")
}
