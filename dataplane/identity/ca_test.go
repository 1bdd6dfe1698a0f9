package identity

import (
	"context"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCASaveAndLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	ca := newCA(t, "example.org")
	if err := ca.Save(dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{RootKeyFile: 0o600, RootFile: 0o644} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want mode %v", name, info, err, want)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("%d files in the directory; want 2", len(entries))
	}
	again, err := LoadCA(dir)
	if err != nil {
		t.Fatal(err)
	}
	if again.TrustDomain() != "example.org" || !again.Root().Equal(ca.Root()) {
		t.Errorf("read back as %q, %v", again.TrustDomain(), again.Roots())
	}
	one, two := mint(t, ca, named("example.org", "web")), mint(t, again, named("example.org", "cart"))
	if _, err := one.VerifyServer([]*x509.Certificate{two.leaf}, []ID{two.ID()}); err != nil {
		t.Errorf("of one root on two nodes: %v", err)
	}
	before, _ := os.ReadFile(filepath.Join(dir, RootKeyFile))
	if err := newCA(t, "example.org").Save(dir); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("second init: %v", err)
	}
	if after, _ := os.ReadFile(filepath.Join(dir, RootKeyFile)); string(after) != string(before) {
		t.Error("the key was replaced")
	}
}

// What is wrong with a directory is told; nothing is issued from it.
func TestLoadCARefuses(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(dir string) error
		want  string
	}{
		{"key for the group", func(d string) error { return os.Chmod(filepath.Join(d, RootKeyFile), 0o640) }, "0640"},
		{"key for all", func(d string) error { return os.Chmod(filepath.Join(d, RootKeyFile), 0o604) }, "0604"},
		{"directory for all", func(d string) error { return os.Chmod(d, 0o777) }, "others may replace the root"},
		{"key behind a link", func(d string) error {
			key := filepath.Join(d, RootKeyFile)
			if err := os.Rename(key, key+".real"); err != nil {
				return err
			}
			return os.Symlink(key+".real", key)
		}, "has to be a file"},
		{"no key", func(d string) error { return os.Remove(filepath.Join(d, RootKeyFile)) }, RootKeyFile},
		{"no root", func(d string) error { return os.Remove(filepath.Join(d, RootFile)) }, RootFile},
		{"no directory", os.RemoveAll, "sluice ca init"},
		{"root of another", func(d string) error {
			return os.WriteFile(filepath.Join(d, RootFile), newCA(t, "cluster.local").Roots().AppendPEM(nil), 0o644)
		}, "different authorities"},
		{"key is no key", func(d string) error { return os.WriteFile(filepath.Join(d, RootKeyFile), []byte("secret"), 0o600) }, "PEM"},
		{"key among the roots", func(d string) error {
			key, err := os.ReadFile(filepath.Join(d, RootKeyFile))
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(d, RootFile), key, 0o644)
		}, "only certificates belong here"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "ca")
			if err := newCA(t, "cluster.local").Save(dir); err != nil {
				t.Fatal(err)
			}
			if err := tt.spoil(dir); err != nil {
				t.Fatal(err)
			}
			issuer := &Directory{Path: dir, Now: noon}
			_, err := issuer.Issue(context.Background(), named("cluster.local", "web"))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v; want %q in it", err, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Error("a key is in the message")
			}
		})
	}
}

// An init that was cut short between the two files is told from an authority.
func TestCASaveAfterCutShort(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ca := newCA(t, "cluster.local")
	if err := create(dir, RootFile, ca.Roots().AppendPEM(nil), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := newCA(t, "cluster.local").Save(dir); err == nil || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("got %v", err)
	}
}

func TestIssueRefuses(t *testing.T) {
	ca := newCA(t, "cluster.local")
	at := func(d time.Duration) func() time.Time { return func() time.Time { return noon().Add(d) } }
	for _, tt := range []struct {
		name     string
		id       ID
		lifetime time.Duration
		now      func() time.Time
		want     string
	}{
		{"another trust domain", named("example.org", "web"), 0, noon, `of trust domain "cluster.local"`},
		{"no account", named("cluster.local", ""), 0, noon, "service account is empty"},
		{"a slash", named("cluster.local", "a/b"), 0, noon, "only letters"},
		{"capitals", named("Cluster.local", "web"), 0, noon, "capital"},
		{"up", named("cluster.local", ".."), 0, noon, `".."`},
		{"too short", named("cluster.local", "web"), time.Second, noon, "too short"},
		{"root expired", named("cluster.local", "web"), 0, at(2 * DefaultRootLifetime), "by the clock of this node it is 2028"},
		{"root not yet valid", named("cluster.local", "web"), 0, at(-time.Hour), "not valid for another"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := ca.Issue(tt.id, tt.lifetime, tt.now); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v; want %q in it", err, tt.want)
			}
		})
	}
	late, err := ca.Issue(named("cluster.local", "web"), 2*DefaultRootLifetime, noon)
	if err != nil || late.NotAfter().After(ca.Root().NotAfter) {
		t.Errorf("outlives its root: %v, %v", late, err)
	}
}

// Another root comes without a cut, as the page on operating says.
func TestNewRoot(t *testing.T) {
	dir, next := filepath.Join(t.TempDir(), "ca"), filepath.Join(t.TempDir(), "next")
	for _, d := range []string{dir, next} {
		if err := newCA(t, "cluster.local").Save(d); err != nil {
			t.Fatal(err)
		}
	}
	issuer := &Directory{Path: dir, Now: noon}
	issue := func() *Certificate {
		t.Helper()
		c, err := issuer.Issue(context.Background(), named("cluster.local", "web"))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	agree := func(a, b *Certificate) {
		t.Helper()
		for _, p := range [][2]*Certificate{{a, b}, {b, a}} {
			if _, err := p[0].VerifyClient([]*x509.Certificate{p[1].leaf}); err != nil {
				t.Error(err)
			}
		}
	}
	old := issue()
	both, err := os.ReadFile(filepath.Join(dir, RootFile))
	if err != nil {
		t.Fatal(err)
	}
	more, err := os.ReadFile(filepath.Join(next, RootFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, RootFile), append(both, more...), 0o644); err != nil {
		t.Fatal(err)
	}
	second := issue()
	agree(old, second)
	if err := os.Rename(filepath.Join(next, RootKeyFile), filepath.Join(dir, RootKeyFile)); err != nil {
		t.Fatal(err)
	}
	third := issue()
	agree(second, third)
	if err := os.WriteFile(filepath.Join(dir, RootFile), more, 0o644); err != nil {
		t.Fatal(err)
	}
	agree(third, issue())
}
