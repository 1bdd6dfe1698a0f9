package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLayers is the gate itself: this repository keeps to layers.txt.
func TestLayers(t *testing.T) {
	faults, packages, err := run("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		t.Error(f)
	}
	if packages < 4 {
		t.Errorf("saw %d packages; the scan misses the tree", packages)
	}
}

// policyText allows what the trees below do right.
const policyText = `
tests : internal/testkit
only syscall : dataplane/sys
only unsafe : dataplane/sys tests
internal/testkit 0 : :
dataplane/sys 0 : :
dataplane/netns 1 : dataplane/sys : redirect
dataplane/loop 2 : dataplane/* :
dataplane/end 3 : dataplane/sys :
redirect 0 : :
cmd/sluice 0 : dataplane/sys dataplane/netns :
`

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		name, file, source string
		want               string // part of the one fault; "" for none
	}{
		{"down", "dataplane/netns/a.go", `package netns; import _ "m/dataplane/sys"`, ""},
		{"down by pattern", "dataplane/loop/a.go", `package loop; import _ "m/dataplane/netns"`, ""},
		{"not named", "cmd/sluice/a.go", `package main; import _ "m/dataplane/loop"`, "cmd/sluice/a.go:1: cmd/sluice must not import dataplane/loop"},
		{"up", "dataplane/sys/a.go", `package sys; import _ "m/dataplane/netns"`, "dataplane/sys must not import dataplane/netns"},
		{"behind a tag", "dataplane/sys/a.go", "//go:build checked\n\npackage sys\n\nimport _ \"m/dataplane/netns\"", "a.go:5"},
		{"test column", "dataplane/netns/a_test.go", `package netns_test; import _ "m/redirect"`, ""},
		{"test column is for tests", "dataplane/netns/a.go", `package netns; import _ "m/redirect"`, "must not import redirect"},
		{"testkit in a test", "dataplane/sys/a_test.go", `package sys_test; import _ "m/internal/testkit"`, ""},
		{"testkit in a program", "cmd/sluice/a.go", `package main; import _ "m/internal/testkit"`, "must not import internal/testkit"},
		{"own package in a test", "dataplane/sys/a_test.go", `package sys_test; import _ "m/dataplane/sys"`, ""},
		{"no line", "dataplane/new/a.go", `package new`, "dataplane/new has no line"},
		{"limited, allowed", "dataplane/sys/a.go", `package sys; import _ "syscall"`, ""},
		{"limited", "dataplane/loop/a.go", `package loop; import _ "syscall"`, "only dataplane/sys may"},
		{"limited in tests", "dataplane/loop/a_test.go", `package loop; import _ "syscall"`, "only dataplane/sys may"},
		{"limited, tests allowed", "dataplane/loop/a_test.go", `package loop; import _ "unsafe"`, ""},
		{"init", "dataplane/sys/a.go", `package sys; func init() {}`, "func init"},
		{"a method named init", "dataplane/sys/a.go", `package sys; type t int; func (t) init() {}`, ""},
		{"linkname", "dataplane/sys/a.go", "package sys\n\n//go:linkname a b\nfunc a()", "go:linkname"},
		{"sleep in a test", "dataplane/sys/a_test.go", `package sys; import "time"; func f() { time.Sleep(1) }`, "time.Sleep in a test"},
		{"sleep elsewhere", "dataplane/sys/a.go", `package sys; import "time"; func f() { time.Sleep(1) }`, ""},
		{"testdata is not read", "dataplane/sys/testdata/a.go", `package x; func init() {}`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			write(t, root, "go.mod", "module m\n")
			write(t, root, "tools/layers/layers.txt", policyText)
			write(t, root, tt.file, tt.source)
			faults, _, err := run(root)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(faults, "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) || len(faults) > 1 {
				t.Errorf("faults %q; want %q", got, tt.want)
			}
		})
	}
}

func TestPolicyGoesDown(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"same layer", "dataplane/a 1 : dataplane/b :\ndataplane/b 1 : :", "on layer 1, not below layer 1"},
		{"unknown", "dataplane/a 1 : dataplane/b :", "it has no line"},
		{"bench on the data path", "bench/a 1 : dataplane/loop :\ndataplane/loop 2 : :", "bench does not stand on this part of dataplane"},
		{"redirect too high", "redirect/a 1 : dataplane/loop :\ndataplane/loop 2 : :", "redirect does not stand on"},
		{"dataplane on redirect", "dataplane/a 1 : redirect :\nredirect 0 : :", "dataplane does not stand on"},
		{"a program", "dataplane/a 1 : cmd/x :\ncmd/x 0 : :", "a program is not imported"},
		{"fine", "redirect/a 1 : dataplane/b :\ndataplane/b 1 : :", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := parsePolicy(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(p.faults(), "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("faults %q; want %q", got, tt.want)
			}
		})
	}
}

func TestPolicyText(t *testing.T) {
	for _, text := range []string{"dataplane/a : b :", "dataplane/a x : :", "a 0 : :\na 0 : :", "only x y : :"} {
		if _, err := parsePolicy(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
