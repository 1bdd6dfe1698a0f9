package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A testFile is one _test.go file: where it is and the tests that it holds.
type testFile struct {
	dir, name string
	funcs     []string // TestX, FuzzX and so on, top level only
}

// readSource parses the test files below root. Which of them a build takes is
// asked later, because it depends on the tags.
func readSource(root string) ([]testFile, error) {
	var files []testFile
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		switch {
		case d.IsDir() && path != root && (name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		parsed, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		f := testFile{dir: filepath.Dir(path), name: name}
		for _, d := range parsed.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && fn.Recv == nil && fn.Name.Name != "TestMain" && len(fn.Type.Params.List) == 1 {
				f.funcs = append(f.funcs, fn.Name.Name)
			}
		}
		files = append(files, f)
		return nil
	})
	return files, err
}

// find returns, by directory, the functions that a build with the tags has and
// that want accepts.
func find(files []testFile, tags []string, want func(name string) bool) (map[string][]string, error) {
	ctx := build.Default
	ctx.BuildTags = tags
	found := map[string][]string{}
	for _, f := range files {
		ok, err := ctx.MatchFile(f.dir, f.name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(f.dir, f.name), err)
		}
		if !ok {
			continue
		}
		for _, fn := range f.funcs {
			if want(fn) {
				found[f.dir] = append(found[f.dir], fn)
			}
		}
	}
	for _, names := range found {
		slices.Sort(names)
	}
	return found, nil
}

// hasCorpus reports whether a fuzz target has seeds in the repository.
func hasCorpus(dir, target string) bool {
	entries, err := os.ReadDir(filepath.Join(dir, "testdata", "fuzz", target))
	return err == nil && len(entries) > 0
}
