package testkit

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// update is a flag of the test binary, hence a package variable.
var update = flag.Bool("update", false, "rewrite golden files below testdata instead of comparing with them")

// Golden compares got with the file testdata/name of the package under test, and
// rewrites the file instead when the test binary runs with -update.
func Golden[T ~string | ~[]byte](t testing.TB, name string, got T) {
	t.Helper()
	path := filepath.Join("testdata", filepath.FromSlash(name))
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatalf("golden %s: %v", name, err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatalf("golden %s: %v", name, err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("golden %s: %v; write it with -update and read it before you commit it", name, err)
	}
	if d := firstDifference(string(want), string(got)); d != "" {
		t.Errorf("golden %s differs, %s\nRun with -update when the new text is right.", name, d)
	}
}

// firstDifference describes where two texts part; "" when they are equal.
func firstDifference(want, got string) string {
	if want == got {
		return ""
	}
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	line := 0
	for line < len(w) && line < len(g) && w[line] == g[line] {
		line++
	}
	return fmt.Sprintf("line %d:\n--- want\n%s\n--- got\n%s", line+1, excerpt(w, line), excerpt(g, line))
}

// excerpt shows up to three lines before, and five from, the line at.
func excerpt(lines []string, at int) string {
	return strings.Join(lines[max(0, at-3):min(len(lines), at+5)], "\n")
}
