package docs_test

import (
	"go/ast"
	"path"
	"strings"
	"testing"
)

// TestArchitecturePage fails on a package without a row and on a row without a
// package.
func TestArchitecturePage(t *testing.T) {
	packages := map[string]bool{}
	eachFile(t, func(file string, _ *ast.File) { packages[path.Dir(file)] = true })
	onPage := map[string]bool{}
	for _, row := range rows(page(t, "ARCHITECTURE.md"), "## Packages") {
		name := strings.Trim(row[0], "`")
		onPage[name] = true
		if !packages[name] {
			t.Errorf("ARCHITECTURE.md has a row for %s; there is no such package", name)
		}
	}
	for name := range packages {
		if !onPage[name] {
			t.Errorf("ARCHITECTURE.md has no row for %s", name)
		}
	}
}

// TestReadmeHasTwoCommands keeps the promise of the first page: the commands that
// it shows are targets of the Makefile, and there are two.
func TestReadmeHasTwoCommands(t *testing.T) {
	makefile := page(t, "Makefile")
	var commands []string
	for line := range strings.Lines(page(t, "README.md")) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			commands = append(commands, strings.TrimSpace(command))
		}
	}
	if len(commands) != 2 {
		t.Errorf("README.md shows %q; want two commands", commands)
	}
	for _, c := range commands {
		target, ok := strings.CutPrefix(c, "make ")
		if !ok || !strings.Contains(makefile, "\n"+target+":") {
			t.Errorf("README.md shows %q; the Makefile has no such target", c)
		}
	}
}
