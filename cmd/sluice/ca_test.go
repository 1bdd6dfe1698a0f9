package main

import (
	"bytes"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/dataplane/identity"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// ca runs one command line and returns its status and what it printed.
func ca(args ...string) (status int, stdout, stderr string) {
	var out, bad bytes.Buffer
	status = execute(append([]string{"ca"}, args...), environment(), &out, &bad)
	return status, out.String(), bad.String()
}

func TestCA(t *testing.T) {
	dir, out := filepath.Join(t.TempDir(), "ca"), filepath.Join(t.TempDir(), "web")
	const web = "spiffe://example.org/ns/shop/sa/web"

	status, made, bad := ca("init", dir, "--trust-domain", "example.org")
	if status != 0 || !strings.Contains(made, "trust domain  example.org\n") {
		t.Fatalf("init: status %d\n%s%s", status, made, bad)
	}
	if status, _, bad := ca("init", dir); status != 1 || !strings.Contains(bad, "has an authority already") {
		t.Errorf("second init: status %d\n%s", status, bad)
	}
	if status, shown, _ := ca("show", dir); status != 0 || shown != made {
		t.Errorf("show: status %d\n%s", status, shown)
	}
	root, err := os.ReadFile(filepath.Join(dir, identity.RootFile))
	if err != nil {
		t.Fatal(err)
	}
	if _, pem, _ := ca("show", dir, "--pem"); pem != string(root) {
		t.Errorf("show --pem:\n%s", pem)
	}

	if status, told, bad := ca("issue", dir, web, out, "--lifetime", "10m"); status != 0 || !strings.Contains(told, web) {
		t.Fatalf("issue: status %d\n%s%s", status, told, bad)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(out, identity.ChainFile), filepath.Join(out, identity.KeyFile))
	if err != nil {
		t.Fatal(err)
	}
	if id, err := identity.Name(pair.Leaf); err != nil || id.String() != web {
		t.Errorf("issued for %v, %v", id, err)
	}
	if info, err := os.Stat(filepath.Join(out, identity.KeyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key: %v, %v", info, err)
	}
	for want, args := range map[string][]string{
		"is not replaced":          {"issue", dir, web, out},
		"not a workload identity":  {"issue", dir, "web", out + "2"},
		`of trust domain "example`: {"issue", dir, "spiffe://cluster.local/ns/shop/sa/web", out + "2"},
		"sluice ca init":           {"show", dir + "2"},
	} {
		if status, _, bad := ca(args...); status != 1 || !strings.Contains(bad, want) {
			t.Errorf("%q: status %d, %s; want %q", args, status, bad, want)
		}
	}
}

// The page on operating has every reason for which a peer is refused.
func TestReasonsAreDocumented(t *testing.T) {
	var got, want []string
	for _, row := range testkit.Table(t, page, "These are the\nreasons:") {
		got = append(got, testkit.Code(row[0])...)
	}
	for r := range identity.Reasons {
		want = append(want, r.String())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the page has %q; the program %q", got, want)
	}
}
