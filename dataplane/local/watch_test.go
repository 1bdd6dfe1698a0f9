package local

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-mesh/sluice/dataplane/mesh"
	"github.com/sluice-mesh/sluice/internal/testkit"
)

// file is a mesh of one workload with this name.
func file(name string) string { return strings.Replace(one(""), "web-0", name, 1) }

// put renames a file into its place.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestWatch(t *testing.T) {
	testkit.NoLeaks(t)
	path := filepath.Join(t.TempDir(), "mesh.yaml")
	put(t, path, file("first"))
	var now mesh.Current
	w, err := Start(Config{Path: path, Into: &now, Every: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { w.Run(ctx) })
	defer wg.Wait()
	defer stop()
	has := func(name string) func() bool {
		return func() bool { return now.Load().ByName("shop", name, "web") != nil }
	}
	if !has("first")() {
		t.Fatal("not there after Start")
	}
	put(t, path, file("second"))
	testkit.Eventually(t, testkit.Wait, "a file renamed into the place", has("second"))

	kept := now.Load()
	put(t, path, "workloads: [{nonsense: true}]")
	testkit.Eventually(t, testkit.Wait, "a broken file counted", func() bool { return w.Stats().Failures == 1 })
	if err := w.Stats().Err; err == nil || !strings.Contains(err.Error(), "nonsense") || !strings.Contains(err.Error(), path) {
		t.Errorf("told %v", err)
	}
	if now.Load() != kept {
		t.Error("a broken file took the mesh away")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, testkit.Wait, "a file that is gone counted", func() bool { return w.Stats().Failures == 2 })
	if now.Load() != kept {
		t.Error("a file that is gone took the mesh away")
	}
	put(t, path, file("second"))
	testkit.Eventually(t, testkit.Wait, "the good file read again", func() bool { return w.Stats().Err == nil })

	// In place, with the same length: as an editor may.
	if err := os.WriteFile(path, []byte(file("thirdd")), 0o600); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, testkit.Wait, "a file written in place", has("thirdd"))
}

// A volume of a container swaps a link that leads to the file's directory.
func TestWatchLink(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"one", "two"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, d, "mesh.yaml"), file(d))
	}
	link := filepath.Join(dir, "data")
	if err := os.Symlink("one", link); err != nil {
		t.Fatal(err)
	}
	var now mesh.Current
	w, err := Start(Config{Path: filepath.Join(link, "mesh.yaml"), Into: &now})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("two", link+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+".new", link); err != nil {
		t.Fatal(err)
	}
	w.look()
	if now.Load().ByName("shop", "two", "web") != nil {
		t.Error("read at the first look, when it may not be at rest")
	}
	w.look()
	if now.Load().ByName("shop", "two", "web") == nil {
		t.Error("not read at the second look")
	}
	loads := w.Stats().Loads
	for range 5 {
		w.look()
	}
	if n := w.Stats().Loads; n != loads {
		t.Errorf("published %d times more without a change", n-loads)
	}
}

// What stays unreadable is told once.
func TestWatchUnreadable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.yaml")
	put(t, path, file("first"))
	var now mesh.Current
	w, err := Start(Config{Path: path, Into: &now})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		w.look()
	}
	if got := w.Stats(); got.Failures != 1 || got.Err == nil || now.Load().Len() != 1 {
		t.Errorf("counted %+v with %d workloads", got, now.Load().Len())
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	put(t, path, file("second"))
	w.look()
	w.look()
	if got := w.Stats(); got.Err != nil || now.Load().ByName("shop", "second", "web") == nil {
		t.Errorf("a good file again: %+v", got)
	}
}

func TestStartRefuses(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	put(t, bad, "nonsense: 1")
	for path, want := range map[string]string{bad: "nonsense", filepath.Join(dir, "none.yaml"): "none.yaml", dir: "directory"} {
		var now mesh.Current
		if _, err := Start(Config{Path: path, Into: &now}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q in it", path, err, want)
		}
	}
}
