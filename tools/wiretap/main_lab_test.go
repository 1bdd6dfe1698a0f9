package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/bench/lab"
	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/tools/wiretap/tap"
)

// TestLabProgram captures a link on which a secret passes in the clear, says so,
// and says the same of the file that it kept.
func TestLabProgram(t *testing.T) {
	testkit.NoLeaks(t)
	l := lab.New(t, lab.Simple(0, 0, 2))
	const secret = "0123456789 nobody may read this"
	file := filepath.Join(t.TempDir(), "link.pcapng")

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, progress := new(bytes.Buffer), make(lines, 10)
	cmd := command()
	cmd.SetOut(out)
	cmd.SetErr(progress)
	cmd.SetArgs([]string{"--netns", l.Hosts[0].Netns, "--interface", "eth0", "--secret-text", secret, "--write", file, "--json"})
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	if line := testkit.Receive(t, testkit.Wait, "the tap", progress); !strings.Contains(line, "ready") {
		t.Fatalf("wiretap wrote %q", line)
	}
	say(t, l.Hosts[0], l.Hosts[1], secret)
	stop()
	err := testkit.Receive(t, testkit.Wait, "the end of wiretap", ended)
	if err == nil || !strings.Contains(err.Error(), "is readable") {
		t.Errorf("wiretap says %v", err)
	}
	var r tap.Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if len(r.Connections) != 1 || len(r.Secrets) != 1 || r.Secrets[0].Finds == 0 || len(r.Faults) == 0 {
		t.Errorf("the report is %s", out)
	}

	out.Reset()
	cmd = command()
	cmd.SetOut(out)
	cmd.SetArgs([]string{"--read", file, "--clear", l.Hosts[1].Addr4.String()})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "no encrypted connection was seen") {
		t.Errorf("wiretap says %v", err)
	}
	if !strings.Contains(out.String(), "no, and need not be") || !strings.Contains(out.String(), "verdict: NOT ENCRYPTED") {
		t.Errorf("the report is:\n%s", out)
	}
}

// say sends a text over one connection.
func say(t *testing.T, from, to *lab.Host, text string) {
	t.Helper()
	l, err := to.Listen(to.At4(80), lab.Socket{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := from.Dial(t.Context(), to.At4(80), lab.Socket{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.WriteString(c, text)
	if cerr := c.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, err := io.ReadAll(s); err != nil || string(got) != text {
		t.Fatalf("read %q, %v", got, err)
	}
}

// lines are what a program writes.
type lines chan string

func (l lines) Write(b []byte) (int, error) { l <- string(b); return len(b), nil }

// TestFaultsAllAtOnce: a program that is told nonsense names every piece of it.
func TestFaultsAllAtOnce(t *testing.T) {
	cmd := command()
	cmd.SetArgs([]string{"--secret-file", "absent-file", "--certificate", "main.go", "--clear", "nobody"})
	err := cmd.ExecuteContext(t.Context())
	for _, want := range []string{"absent-file", "main.go holds no certificate", `--clear "nobody"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v; want %q in it", err, want)
		}
	}
}
