package agent

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/sluice-mesh/sluice/internal/testkit"
	"github.com/sluice-mesh/sluice/redirect"
)

func sample(uid string) record {
	return record{
		Version: recordVersion, UID: uid, Name: "n", Namespace: "ns", ServiceAccount: "sa",
		Place:  place{Path: "/run/netns/n", Dev: 4, Ino: 4026532246, Cookie: 7},
		Intent: redirect.Intent{Mode: redirect.ModeDirect}, Phase: Capturing,
	}
}

func TestStore(t *testing.T) {
	testkit.NoLeaks(t)
	s := store(t.TempDir())
	long := strings.Repeat("x/", 200)
	uids := []string{"..", "a/b", "a_b", long, long + "y", "ü/ß"}
	for _, uid := range uids {
		if err := s.save(sample(uid)); err != nil {
			t.Fatal(err)
		}
	}
	changed := sample("a/b")
	changed.Phase, changed.Force = Leaving, true
	if err := s.save(changed); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(string(s), ".new-123"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := s.load()
	if err != nil || len(all) != len(uids) {
		t.Fatalf("loaded %d, %v; want %d", len(all), err, len(uids))
	}
	for i, r := range all {
		want := sample(r.UID)
		if r.UID == "a/b" {
			want = changed
		}
		if !reflect.DeepEqual(r, want) {
			t.Errorf("read back %+v; want %+v", r, want)
		}
		if i > 0 && all[i-1].UID >= r.UID {
			t.Errorf("%q comes after %q", r.UID, all[i-1].UID)
		}
	}
	entries, err := os.ReadDir(string(s))
	if err != nil || len(entries) != len(uids) {
		t.Errorf("%d files, %v; want %d: what a crash left half written goes", len(entries), err, len(uids))
	}
	for _, e := range entries {
		if fi, err := e.Info(); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v; want 0600", e.Name(), fi.Mode(), err)
		}
	}
	for range 2 { // dropping twice is no error
		if err := s.drop("a/b"); err != nil {
			t.Fatal(err)
		}
	}
	if all, err = s.load(); err != nil || len(all) != len(uids)-1 {
		t.Errorf("after drop %d, %v; want %d", len(all), err, len(uids)-1)
	}
}

// A file that can't be believed stops the agent: without it the proxy would be
// told to drop that pod.
func TestStoreRefusesBadFiles(t *testing.T) {
	text := func(change func(*record)) string {
		s := store(t.TempDir())
		if err := s.save(sample("u")); err != nil {
			t.Fatal(err)
		}
		r := sample("u")
		change(&r)
		if err := s.save(r); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(s.file(r.UID))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	own := text(func(*record) {})
	for name, tt := range map[string]struct{ content, want string }{
		"empty":         {"", "EOF"},
		"cut":           {own[:len(own)/2], "unexpected"},
		"other version": {strings.Replace(own, `"version": 1`, `"version": 2`, 1), "version 2"},
		"unknown field": {strings.Replace(own, `"version"`, `"colour"`, 1), "colour"},
		"phase":         {text(func(r *record) { r.Phase = "sleeping" }), "sleeping"},
		"no path":       {text(func(r *record) { r.Place.Path = "" }), "no path"},
		"other pod":     {text(func(r *record) { r.UID = "v" }), "belongs into"},
		"mode":          {text(func(r *record) { r.Intent.Mode = redirect.ModeRedirect }), "mode"},
	} {
		t.Run(name, func(t *testing.T) {
			s := store(t.TempDir())
			if err := os.WriteFile(s.file("u"), []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := s.load()
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), s.file("u")) {
				t.Errorf("got %v; want an error that names the file and %q", err, tt.want)
			}
		})
	}
	if _, err := store(filepath.Join(t.TempDir(), "none")).load(); err == nil {
		t.Error("a folder that is not there was read")
	}
}

func TestConfig(t *testing.T) {
	c, err := Config{}.check()
	if err != nil || c.EnrollSocket != DefaultEnrollSocket || c.StateDir != DefaultStateDir || c.AskWait == 0 {
		t.Errorf("zero value became %+v, %v", c, err)
	}
	_, err = Config{AskWait: -1, Retry: -1, Intent: redirect.Intent{Mode: redirect.ModeRedirect}}.check()
	for _, want := range []string{"ask wait", "retry", "intent"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want a fault about %s, too", err, want)
		}
	}
}
