package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/redirect"
)

// asProgram makes the test binary be the program, for tests that need a process
// with fewer rights.
const asProgram = "SLUICE_REDIRECT_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// run executes a command line and returns what it prints.
func run(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestPlan(t *testing.T) {
	for name, args := range map[string][]string{
		"plan":          {"plan"},
		"plan-dns":      {"plan", "--dns"},
		"plan-nft":      {"plan", "--nft"},
		"plan-undo":     {"plan", "--undo"},
		"plan-undo-nft": {"plan", "--undo", "--nft"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := run(t, "", args...)
			if err != nil {
				t.Fatal(err)
			}
			testkit.Golden(t, name+".golden", got)
		})
	}
}

// The intent as text makes the same plan as the flags do.
func TestPlanFromText(t *testing.T) {
	flags, err := run(t, "", "plan", "--dns", "--probe4", "192.0.2.9", "--mode", "direct")
	if err != nil {
		t.Fatal(err)
	}
	text := `{"mode":"direct","dns":true,"probe4":"192.0.2.9"}`
	stdin, err := run(t, text, "plan", "--intent", "-")
	if err != nil || stdin != flags {
		t.Errorf("from standard input: %v\n%s", err, stdin)
	}
	path := t.TempDir() + "/intent.json"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if file, err := run(t, "", "plan", "--intent", path); err != nil || file != flags {
		t.Errorf("from a file: %v\n%s", err, file)
	}
}

func TestRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, stdin, want string
		args              []string
	}{
		{"mode redirect", "", "mode redirect", []string{"plan", "--mode", "redirect"}},
		{"unknown mode", "", `mode "tproxy"`, []string{"plan", "--mode", "tproxy"}},
		{"bad probe", "", "probe4 is 127.0.0.1", []string{"plan", "--probe4", "127.0.0.1"}},
		{"bad text", `{"mod":1}`, `"mod"`, []string{"plan", "--intent", "-"}},
		{"no such file", "", "no such file", []string{"plan", "--intent", "/nonexistent/intent"}},
		{"text and flags", "{}", "intent", []string{"plan", "--intent", "-", "--dns"}},
		{"argument", "", "unknown command", []string{"plan", "now"}},
		{"no namespace", "", "--netns NAME or PATH, or --pid PID", []string{"apply"}},
		{"two namespaces", "", "--netns NAME or PATH, or --pid PID", []string{"apply", "--netns", "a", "--pid", "1"}},
		{"negative process", "", "--pid is -1", []string{"remove", "--pid", "-1"}},
		{"name of nothing", "", "/run/netns/sluice-none: no such file", []string{"apply", "--netns", "sluice-none"}},
		{"process that is gone", "", "/proc/2147483647/ns/net: no such file", []string{"remove", "--pid", "2147483647"}},
		{"a file", "", "name a file below /run/netns", []string{"apply", "--netns", "/etc/passwd"}},
		{"another kind of namespace", "", "name a file below /run/netns", []string{"remove", "--netns", "/proc/self/ns/uts"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := run(t, tt.stdin, tt.args...)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, %q; want an error with %q", err, got, tt.want)
			}
		})
	}
	if _, err := run(t, "", "plan", "--mode", "redirect"); !errors.Is(err, redirect.ErrMode) {
		t.Errorf("mode redirect: %v; want ErrMode", err)
	}
}
