package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// A use is one import, or one thing that the style forbids, at one place.
type use struct {
	what string // an import path, or words
	at   string // file:line
	test bool   // in a _test.go file
}

// A pkg is what the files of one directory use.
type pkg struct {
	imports   []use
	forbidden []use
}

// scan reads every Go file below root, whatever its build tags, and returns the
// packages by their path below the module. Like the go command it leaves out
// testdata, vendor and names that begin with a dot or an underscore, and other
// modules.
func scan(root, module string) (map[string]*pkg, error) {
	tree := map[string]*pkg{}
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if file == root {
				return nil
			}
			if name == "testdata" || name == "vendor" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
			return nil
		}
		parsed, err := parser.ParseFile(fset, file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		dir = filepath.ToSlash(dir)
		if tree[dir] == nil {
			tree[dir] = &pkg{}
		}
		tree[dir].add(fset, parsed, root, module)
		return nil
	})
	return tree, err
}

// add notes what one file uses.
func (p *pkg) add(fset *token.FileSet, file *ast.File, root, module string) {
	at := func(pos token.Pos) string {
		where := fset.Position(pos)
		name, err := filepath.Rel(root, where.Filename)
		if err != nil {
			name = where.Filename
		}
		return fmt.Sprintf("%s:%d", name, where.Line)
	}
	test := strings.HasSuffix(fset.Position(file.Pos()).Filename, "_test.go")
	timeName := ""
	for _, spec := range file.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has checked it
		}
		if imp == "time" {
			timeName = "time"
			if spec.Name != nil {
				timeName = spec.Name.Name
			}
		}
		imp = strings.TrimPrefix(imp, module+"/")
		p.imports = append(p.imports, use{imp, at(spec.Pos()), test})
	}
	forbid := func(pos token.Pos, what string) {
		p.forbidden = append(p.forbidden, use{what, at(pos), test})
	}
	for _, group := range file.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//go:linkname") {
				forbid(c.Pos(), "go:linkname")
			}
		}
	}
	for _, decl := range file.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			forbid(fn.Pos(), "func init")
		}
	}
	if !test || timeName == "" {
		return
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == timeName {
				forbid(sel.Pos(), "time.Sleep in a test; wait for an event (internal/testkit)")
			}
		}
		return true
	})
}

// modulePath reads the module's name out of go.mod.
func modulePath(gomod string) (string, error) {
	text, err := os.ReadFile(gomod)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "module "); ok {
			return path.Clean(strings.TrimSpace(name)), nil
		}
	}
	return "", fmt.Errorf("%s names no module", gomod)
}
